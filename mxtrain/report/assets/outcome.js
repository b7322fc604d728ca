// The sections of what came out, and of what: classes and samples, events, configs.

function classes(run) {
  const found = run.classes;
  if (!found) return null;
  const name = i => found.names[i];
  const rows = table(
    "Classes, those with the lowest recall first",
    [
      {title: "class", value: row => name(row[0])},
      {title: found.boxes ? "boxes" : found.has_overlaps ? "pixels" : "samples", number: true, value: row => row[1], show: row => format(row[1])},
      found.has_overlaps && {title: "IoU", number: true, value: row => row[4], show: row => percent(row[4])},
      found.boxes && {title: "average precision", number: true, value: row => row[4], show: row => percent(row[4])},
      {title: "precision", number: true, value: row => row[2], show: row => percent(row[2])},
      {title: "recall", number: true, value: row => row[3], show: row => percent(row[3])},
    ].filter(Boolean),
    found.rows,
    true,
  );
  const parts = [];
  if (found.matrix) parts.push(matrix(found));
  if (found.bins.length) parts.push(calibration(found));
  if (found.boxes) parts.push(precisionOverRecall(found));
  const pairs =
    found.matrix &&
    table(
      "What is confused most often",
      [
        {title: "is", value: row => name(row[0])},
        {title: "taken for", value: row => name(row[1])},
        {title: found.has_overlaps ? "pixels" : "samples", number: true, value: row => row[2], show: row => format(row[2])},
      ],
      found.matrix.most,
      false,
    );
  return section(
    "classes",
    "Classes",
    `evaluation of step ${format(found.step)}` +
      (found.boxes ? `; precision and recall of detections that score ${format(found.boxes.least_score)} or more` : ""),
    el(
      "div",
      {class: "grid"},
      parts,
      el("div", {class: parts.length % 2 === (pairs ? 1 : 0) ? "wide" : null}, rows),
      pairs && el("div", {}, pairs),
    ),
  );
}

function matrix(found) {
  const {classes: chosen, counts, of: all} = found.matrix;
  const told =
    chosen.length < all
      ? `the ${chosen.length} of ${all} classes that are confused most`
      : "rows are what a sample is, columns what it is taken for";
  const labels = chosen.map(i => plain(found.names[i]));
  const places = chosen.map((_, i) => i);
  return figure(
    "Confusion matrix",
    told,
    () => {
      const sums = counts.map(row => row.reduce((a, b) => a + b, 0) || 1);
      const text = counts.map((row, i) =>
        row.map((count, j) => `${labels[i]}<br>taken for ${labels[j]}: ${count} (${percent(count / sums[i])})`),
      );
      const cut = innerWidth < 600 ? 10 : 18;
      const every = innerWidth < 600 && chosen.length > 15 ? 3 : 1;
      const ticks = chosen.map(i =>
        plain(found.names[i].length > cut ? found.names[i].slice(0, cut - 1) + "…" : found.names[i]),
      );
      const axis = {
        automargin: true,
        tickvals: places.filter(i => i % every === 0),
        ticktext: ticks.filter((_, i) => i % every === 0),
        nticks: undefined,
        tickfont: {size: chosen.length > 15 ? 9 : 11},
        showgrid: false,
      };
      // What is right and what is not have a colour each; by the root of the share, so that rare confusions show.
      const part = (isRight, tint) => ({
        type: "heatmap",
        x: places,
        y: places,
        text,
        hoverinfo: "text",
        zmin: 0,
        zmax: 1,
        showscale: false,
        xgap: 1,
        ygap: 1,
        z: counts.map((row, i) =>
          row.map((count, j) => ((i === j) === isRight && (count || !isRight) ? Math.sqrt(count / sums[i]) : null)),
        ),
        hoverongaps: false,
        colorscale: [
          [0, translucent(tint, 0.03)],
          [1, tint],
        ],
      });
      const traces = [part(true, color("--accent")), part(false, color("--second"))];
      if (chosen.length <= 12) {
        // Numbers in the cells, light on dark ones.
        const annotations = counts
          .flatMap((row, i) =>
            row.map(
              (count, j) =>
                count && {
                  x: j,
                  y: i,
                  text: String(count),
                  showarrow: false,
                  font: {size: 11, color: count / sums[i] > 0.3 ? color("--paper") : color("--ink")},
                },
            ),
          )
          .filter(Boolean);
        return {
          traces,
          layout: layoutOf({...axis, tickangle: -40}, {...axis, autorange: "reversed"}, {annotations}),
        };
      }
      return {traces, layout: layoutOf({...axis, tickangle: -60}, {...axis, autorange: "reversed"})};
    },
    {height: 420},
  );
}

function precisionOverRecall(found) {
  const {recalls, mean, classes: chosen, of: all} = found.boxes;
  const told =
    chosen.length < all
      ? `the mean of ${all} classes, and the ${chosen.length} with the lowest average precision; overlaps from a half on`
      : "of each class and their mean; overlaps from a half on";
  const tints = colors("--series");
  return figure(
    "Precision over recall",
    told,
    () => ({
      traces: [
        ...chosen.map((each, i) => ({
          type: "scatter",
          mode: "lines",
          name: plain(found.names[each.class]),
          x: recalls,
          y: each.y,
          line: {color: tints[(i + 1) % tints.length], width: 1.2},
        })),
        {
          type: "scatter",
          mode: "lines",
          name: "mean",
          x: recalls,
          y: mean,
          line: {color: color("--accent"), width: 2.5},
        },
      ],
      layout: layoutOf(
        {title: "recall: boxes that are detected", tickformat: ".0%", range: [0, 1.03]},
        {automargin: true, title: "precision: detections that are right", tickformat: ".0%", range: [0, 1.06]},
        {showlegend: true},
      ),
    }),
    {height: 420},
  );
}

function calibration(found) {
  const told =
    found.ece === null ? "" : `expected calibration error ${format(found.ece)}; larger dots stand for more samples`;
  const most = Math.max(...found.bins.map(bin => bin[2]));
  return figure(
    "Calibration",
    told,
    () => ({
      traces: [
        {
          type: "scatter",
          mode: "lines",
          x: [0, 1],
          y: [0, 1],
          hoverinfo: "skip",
          line: {color: color("--soft"), width: 1, dash: "dot"},
        },
        {
          type: "scatter",
          mode: "markers",
          x: found.bins.map(bin => bin[0]),
          y: found.bins.map(bin => bin[1]),
          hoverinfo: "text",
          text: found.bins.map(
            bin => `sure by ${percent(bin[0])}, right in ${percent(bin[1])} of ${format(bin[2])} samples`,
          ),
          marker: {
            color: translucent(color("--accent"), 0.8),
            size: found.bins.map(bin => 7 + 17 * Math.sqrt(bin[2] / most)),
            line: {width: 0},
          },
        },
      ],
      layout: layoutOf(
        {title: "how sure the net is", tickformat: ".0%", range: [0, 1.03]},
        {automargin: true, title: "how often it is right", tickformat: ".0%", range: [0, 1.06]},
      ),
    }),
    {height: 420},
  );
}

const FIRST_SAMPLES = 12;

function samples(run) {
  const {worst, augmented} = run;
  if (!worst && !augmented) return null;
  const parts = [];
  if (worst) {
    const isText = worst.samples.some(each => each.text);
    const list = some =>
      el(
        "ul",
        {class: isText ? "samples texts" : "samples"},
        some.map(sample => el("li", {class: "card sample"}, sampleBody(sample))),
      );
    const rest = worst.samples.slice(FIRST_SAMPLES);
    parts.push(
      worst.problem && el("p", {class: "note"}, worst.problem),
      list(worst.samples.slice(0, FIRST_SAMPLES)),
      rest.length > 0 && disclosure(`${rest.length} more`, list(rest)),
    );
  }
  const shown =
    worst &&
    section("samples", "Samples with the largest losses", `evaluation of step ${format(worst.step)}`, parts);
  const drawn =
    augmented &&
    section(
      "augmented",
      "What the net sees while training",
      augmented.text,
      el(
        "ul",
        {class: augmented.samples.some(each => each.text) ? "samples texts" : "samples"},
        augmented.samples.map(each =>
          el(
            "li",
            {class: "card sample"},
            each.picture && el("img", {src: each.picture, alt: `augmented: ${each.name}`}),
            each.text && el("blockquote", {tabindex: 0}, each.text),
            each.name,
          ),
        ),
      ),
    );
  return [shown, drawn];
}

function sampleBody(sample) {
  const pair = (name, value, isWrong) =>
    value !== null &&
    value !== undefined &&
    value !== "–" && [
      el("dt", {}, name),
      el("dd", {class: isWrong ? "wrong" : null}, el("span", {class: "clip"}, value)),
    ];
  const title = `sample ${sample.sample}` + (sample.label !== null ? `, ${sample.label}` : "");
  return [
    sample.picture && el("img", {src: sample.picture, alt: title, width: 128, height: 128}),
    sample.text && el("blockquote", {tabindex: 0}, sample.text),
    el(
      "dl",
      {},
      pair("is", sample.label),
      pair("taken for", sample.predicted, sample.label !== sample.predicted),
      pair("sure by", percent(sample.probability)),
      pair("loss", format(sample.loss)),
      sample.told.map(([name, value]) => pair(name.replace(/_/g, " "), value)),
      pair("sample", String(sample.sample)),
    ),
  ];
}

function happened(run) {
  if (!run.events.length) return null;
  const few = run.numEvents > run.events.length ? `${run.events.length} of ${format(run.numEvents)}` : null;
  return section(
    "events",
    "Events",
    few,
    table(
      "What happened, in its order",
      [
        {title: "event", value: event => event.event.replace(/_/g, " ")},
        {title: "step", number: true, value: event => event.step, show: event => format(event.step)},
        {title: "after", number: true, value: event => event.after},
        {title: "what", value: event => event.text},
      ],
      run.events,
      false,
    ),
  );
}

function compared(data) {
  if (data.runs.length < 2) return null;
  if (!data.differences.length)
    return section(
      "differences",
      "Differences",
      null,
      el("p", {class: "quiet"}, "All flags but --out are the same."),
    );
  return section(
    "differences",
    "Differences",
    "flags that are not the same",
    table(
      "Flags that differ between the runs",
      [
        {title: "flag", value: row => "--" + row.flag.replace(/_/g, "-")},
        ...data.runs.map((run, i) => ({title: run.name, code: true, value: row => row.values[i]})),
      ],
      data.differences,
      false,
    ),
  );
}

function settings(run) {
  const pairs = (caption, rows) =>
    rows.length
      ? disclosure(
          caption,
          table(
            caption,
            [
              {title: "name", value: row => row[0]},
              {title: "value", code: true, value: row => row[1]},
            ],
            rows,
            false,
          ),
        )
      : null;
  return section(
    "settings",
    "Settings",
    run.folder,
    pairs("Config", run.config),
    pairs("Environment", run.environment),
  );
}
