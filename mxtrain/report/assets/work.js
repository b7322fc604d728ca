// The sections of what a run's time goes into: stages, layers, machines and workers.

const STAGE_NAMES = {
  initialise: "initialise",
  split: "split the data",
  load: "load",
  compute: "compute",
  synchronize: "synchronise",
  update: "update",
  other: "other",
  evaluate: "evaluate",
  save: "save",
  "lost to restarts": "lost to restarts",
};
const COMPUTING_TINTS = {forward: 1, loss: 2, backward: 3};

function stageTint(name) {
  return colors("--stages")[Object.keys(STAGE_NAMES).indexOf(name)];
}

function time(run) {
  const {stages} = run;
  if (!stages) return null;
  const total = Object.entries(stages.total);
  const sum = total.reduce((all, [, value]) => all + value, 0);
  const shares = [...total]
    .sort((a, b) => b[1] - a[1])
    .map(([name, value]) => `${STAGE_NAMES[name]} ${percent(value / sum)}`);
  const names = Object.keys(stages.seconds);
  const figures = [
    figure(
      "The whole run",
      shares.slice(0, 5).join(" · "),
      () => ({
        traces: total.map(([name, value]) => ({
          type: "bar",
          orientation: "h",
          x: [value / sum],
          y: [""],
          marker: {color: stageTint(name)},
          hovertext: plain(`${STAGE_NAMES[name]}: ${seconds(value)}, ${percent(value / sum)}`),
          hoverinfo: "text",
          textposition: "none",
        })),
        layout: layoutOf(
          {tickformat: ".0%", range: [0, 1]},
          {showticklabels: false},
          {barmode: "stack", bargap: 0.1, margin: {l: 2, r: 14, t: 4, b: 24}},
        ),
      }),
      {
        wide: true,
        height: 76,
        below: legend(
          total.map(([name, value]) => [`${STAGE_NAMES[name]} ${seconds(value)}`, stageTint(name)]),
          true,
        ),
      },
    ),
    figure(
      "Shares of a step",
      "over the run, evaluations and checkpoints left out",
      () => ({
        traces: names.map(name => ({
          type: "scatter",
          mode: "lines",
          x: stages.step.map(step => xOf(run, step)),
          y: stages.seconds[name],
          stackgroup: "all",
          groupnorm: "percent",
          line: {width: 0.5, color: stageTint(name)},
          fillcolor: stageTint(name),
          name: STAGE_NAMES[name],
          hovertemplate: "%{y:.1f}%",
        })),
        layout: layoutOf({title: xTitle()}, {ticksuffix: "%", range: [0, 100]}, {hovermode: "x unified"}),
      }),
      {
        wide: !stages.sampled,
        below: legend(
          names.map(name => [STAGE_NAMES[name], stageTint(name)]),
          true,
        ),
      },
    ),
  ];
  if (stages.sampled) {
    const parts = Object.keys(stages.sampled.seconds);
    const tint = name => colors("--series")[COMPUTING_TINTS[name] - 1];
    figures.push(
      figure(
        "Forward, loss and backward",
        "of the sampled steps, which wait in between",
        () => ({
          traces: parts.map(name => ({
            type: "bar",
            x: stages.sampled.step.map(step => `${format(step)}`),
            y: stages.sampled.seconds[name],
            name,
            marker: {color: tint(name)},
            hovertemplate: "%{y:.3g} s",
          })),
          layout: layoutOf(
            {title: "step", type: "category"},
            {ticksuffix: " s", exponentformat: "none"},
            {barmode: "stack", hovermode: "x unified"},
          ),
        }),
        {
          below: legend(
            parts.map(name => [name, tint(name)]),
            true,
          ),
        },
      ),
    );
  }
  return section("time", "Where time goes", null, el("div", {class: "grid"}, figures));
}

const LAYER_KINDS = {
  gradients: "gradients",
  weights: "weights",
  updates: "updates",
  ratio: "updates against weights",
  zero_rows: "share of outputs without gradient",
};

function layers(run) {
  const found = run.layers;
  if (!found) return null;
  const kinds = {...found.kinds};
  if (kinds.updates && kinds.weights) {
    kinds.ratio = kinds.updates.map((row, i) =>
      row.map((value, j) => (value !== null && kinds.weights[i][j] ? value / kinds.weights[i][j] : null)),
    );
  }
  if (!kinds[view.layers]) view.layers = Object.keys(kinds)[0];
  const select = el(
    "select",
    {
      id: "layer-kind",
      onchange: event => {
        view.layers = event.target.value;
        redraw();
      },
    },
    Object.keys(LAYER_KINDS)
      .filter(kind => kinds[kind])
      .map(kind => el("option", {value: kind, selected: kind === view.layers}, LAYER_KINDS[kind])),
  );
  const height = Math.min(Math.max(120 + 15 * found.names.length, 200), 900);
  const last = found.kinds.gradients
    .map((row, i) => [found.names[i], row[row.length - 1]])
    .filter(each => each[1] !== null);
  last.sort((a, b) => b[1] - a[1]);
  const told = last.length ? `largest gradient ${named(last[0])}, smallest ${named(last[last.length - 1])}` : "";
  const plot = figure(
    "Length by layer and step",
    told,
    () => {
      const isShare = view.layers === "zero_rows";
      const z = kinds[view.layers].map(row =>
        row.map(value => (value === null ? null : isShare ? value : value > 0 ? Math.log10(value) : null)),
      );
      const text = kinds[view.layers].map((row, i) =>
        row.map((value, j) => plain(found.names[i]) + `<br>step ${format(found.step[j])}: ${format(value)}`),
      );
      const narrow = innerWidth < 600;
      const every = Math.ceil(found.names.length / Math.max((height - 60) / 13, 1));
      const ticks = found.names.map((_, i) => i).filter(i => i % every === 0);
      const label = i =>
        plain(narrow && found.names[i].length > 16 ? "…" + found.names[i].slice(-15) : found.names[i]);
      return {
        traces: [
          {
            type: "heatmap",
            z,
            x: found.step.map(String),
            y: found.names.map((_, i) => i),
            text,
            hoverinfo: "text",
            xgap: 0,
            ygap: found.names.length < 40 ? 1 : 0,
            colorscale: heatScale(),
            colorbar: {
              thickness: 8,
              outlinewidth: 0,
              tickfont: {size: 10},
              len: 1,
              ...(isShare ? {} : colorTicks(z)),
            },
          },
        ],
        layout: layoutOf(
          {title: "step", type: "category"},
          {
            automargin: true,
            autorange: "reversed",
            nticks: undefined,
            tickvals: ticks,
            ticktext: ticks.map(label),
            tickfont: {size: 10},
          },
        ),
      };
    },
    {wide: true, height},
  );
  const few =
    found.num_layers > found.names.length ? `${found.names.length} of ${found.num_layers} parameters` : null;
  return section(
    "layers",
    "Layers",
    few,
    el("p", {class: "controls"}, el("label", {}, "Lengths of ", select)),
    plot,
  );
}

function named([name, length]) {
  return `${name} (${format(length)})`;
}

// Ticks of a colour bar over logarithms, as the numbers themselves.
function colorTicks(rows) {
  const found = rows.flat().filter(value => value !== null);
  const low = found.reduce((a, b) => Math.min(a, b), Infinity),
    high = found.reduce((a, b) => Math.max(a, b), -Infinity);
  const tickvals = found.length ? [low, (low + high) / 2, high] : [];
  return {tickvals, ticktext: tickvals.map(value => Number((10 ** value).toPrecision(2)).toString())};
}

function heatScale() {
  return [0, 1, 2, 3].map(i => [[0, 0.35, 0.75, 1][i], color("--heat-" + i)]);
}

function machines(run) {
  const found = run.hosts.map(host => [
    run.hosts.length > 1 || host.host ? el("h3", {}, host.host) : null,
    el(
      "div",
      {class: "grid"},
      host.plots.map(plot => {
        const told =
          plot.lines.map(line => `${line.name} ${format(mean(line.y))} ${plot.unit}`).join(" · ") + " on average";
        return figure(
          plot.title,
          told,
          () => ({
            traces: plot.lines.map((line, i) => ({
              type: "scatter",
              mode: host.hours.length > 40 ? "lines" : "lines+markers",
              x: clock(host.hours).values,
              y: line.y,
              name: plain(line.name),
              line: {width: 1.6, color: colors("--series")[i % 8]},
              hovertemplate: `%{y:.4g} ${plot.unit}`,
            })),
            layout: layoutOf(
              {title: clock(host.hours).unit},
              {rangemode: "tozero", ticksuffix: plot.unit === "%" ? "%" : ""},
              {hovermode: "x unified"},
            ),
          }),
          {
            key: `${host.host}/${plot.title}`,
            height: 200,
            below:
              plot.lines.length > 1 && legend(plot.lines.map((line, i) => [line.name, colors("--series")[i % 8]])),
          },
        );
      }),
    ),
  ]);
  return section("machines", "Machines", null, found, memory(run), workers(run));
}

function memory(run) {
  const found = run.memory;
  if (!found) return null;
  const names = Object.keys(found.rows), mega = 2 ** 20;
  const most = names.map(name => `${name} ${bytes(Object.values(found.rows[name]).reduce((a, b) => a + b, 0))}`);
  const measured = found.measured === null ? "" : `; worker 0 held ${bytes(found.measured)} at most`;
  const tints = colors("--series");
  return el(
    "div",
    {class: "grid"},
    figure(
      "What memory is for, by arithmetic",
      most.join(" · ") + measured,
      () => ({
        traces: found.kinds.map((kind, i) => ({
          type: "bar",
          orientation: "h",
          y: names,
          x: names.map(name => (found.rows[name][kind] || 0) / mega),
          marker: {color: tints[i % tints.length]},
          name: kind,
          hovertemplate: "%{x:.4g} MiB",
        })),
        layout: layoutOf({title: "MiB"}, {automargin: true, autorange: "reversed"}, {barmode: "stack"}),
      }),
      {
        wide: true,
        height: Math.min(90 + 28 * names.length, 400),
        below: legend(
          found.kinds.map((kind, i) => [kind, tints[i % tints.length]]),
          true,
        ),
      },
    ),
  );
}

function mean(values) {
  const found = values.filter(value => value !== null);
  return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
}

function workers(run) {
  const found = run.workers;
  if (!found) return null;
  const names = ["split", "load", "compute", "synchronize", "update"];
  const slowest = found.rows.find(row => row.rank === found.slowest);
  const told =
    `worker ${found.slowest} on ${slowest.host} works longest, ${seconds(slowest.working)} a step; ` +
    `what it needs more than others is to ${STAGE_NAMES[found.slow_in]}`;
  const plot = figure(
    "What each worker's time goes into",
    told,
    () => ({
      traces: names.map(name => ({
        type: "bar",
        orientation: "h",
        y: found.rows.map(row => `worker ${row.rank}`),
        x: found.rows.map(row => row.seconds[name]),
        marker: {color: stageTint(name)},
        name: STAGE_NAMES[name],
        hovertemplate: "%{x:.3g} s",
      })),
      layout: layoutOf({title: "seconds a step"}, {automargin: true, autorange: "reversed"}, {barmode: "stack"}),
    }),
    {
      wide: true,
      height: Math.min(90 + 28 * found.rows.length, 700),
      below: legend(
        names.map(name => [STAGE_NAMES[name], stageTint(name)]),
        true,
      ),
    },
  );
  const rows = table(
    "Workers, on average over the run",
    [
      {title: "rank", value: row => row.rank, show: row => String(row.rank)},
      {title: "host", value: row => row.host},
      {title: "works", number: true, value: row => row.working, show: row => seconds(row.working)},
      {
        title: "waits",
        number: true,
        value: row => row.seconds.synchronize,
        show: row => (row.seconds.synchronize === null ? "–" : seconds(row.seconds.synchronize)),
      },
      {
        title: "CPU",
        number: true,
        value: row => row.cpu_percent,
        show: row => (row.cpu_percent === null ? "–" : format(row.cpu_percent) + "%"),
      },
      {title: "memory", number: true, value: row => row.rss_bytes, show: row => bytes(row.rss_bytes)},
    ],
    found.rows,
    true,
  );
  return el("div", {class: "grid workers"}, plot, el("div", {class: "wide"}, rows));
}
