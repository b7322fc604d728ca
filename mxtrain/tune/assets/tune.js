// The page of a search: what its trials found, which flags mattered, and where each run is.

const view = {run: 0, x: "step", open: new Set()};
const data = JSON.parse(document.getElementById("data").textContent);
const trials = data.trials;
const valued = trials.filter(trial => trial.value !== null && trial.outcome === "done");
const better = (a, b) => (data.lower ? a < b : a > b);
const SHADES = 5; // of lines and points, by how good a trial is

function render() {
  document.documentElement.dataset.plots = "drawing";
  waiting.length = 0;
  const sections = [
    section("history", "History", "each trial's best evaluation", el("div", {class: "grid"}, history(), curves())),
    section("flags", "Flags", "what they have to do with the value", el("div", {class: "grid"}, importance(), parallel())),
    section("slices", "Slices", "one flag at a time", el("div", {class: "grid"}, data.flags.map(slice))),
    section("trials", "Trials", `${trials.length} of ${data.planned}`, trialTable()),
  ].filter(Boolean);
  document.getElementById("top").replaceChildren(...header());
  document.getElementById("main").replaceChildren(...sections);
  const links = sections.map(each => el("li", {}, el("a", {href: "#" + each.id}, each.dataset.name)));
  document.getElementById("contents").replaceChildren(el("ul", {}, links));
  document.getElementById("foot").replaceChildren(el("p", {}, `Made on ${data.made} by mxtrain.tune.`));
  drawn = [];
  drawWaiting();
}

function header() {
  const best = trials.find(trial => trial.number === data.best);
  const count = outcome => trials.filter(trial => trial.outcome === outcome).length;
  const facts = [
    [data.value, best ? format(best.value) : "–", best ? `best, trial ${best.number}` : "no trial has a value"],
    ["trials", `${trials.length}`, `of ${data.planned}`],
    ...["pruned", "diverged", "failed"].map(each => [each, `${count(each)}`, "trials"]),
    ["time", seconds(trials.reduce((sum, trial) => sum + (trial.seconds || 0), 0)), "of training"],
  ];
  return [
    el("h1", {}, data.name),
    el("p", {class: "chosen"}, best ? inWords(best) : ""),
    el(
      "dl",
      {class: "facts"},
      facts.map(([name, value, beside]) =>
        el("div", {}, el("dt", {}, name), el("dd", {class: "value"}, value), el("dd", {class: "beside"}, beside)),
      ),
    ),
  ];
}

function inWords(trial) {
  return Object.entries(trial.flags)
    .map(([name, value]) => `${name} ${format(value)}`)
    .join(", ");
}

// What the pointer shows of a trial.
function told(trial) {
  const flags = Object.entries(trial.flags).map(([name, value]) => plain(`${name} ${format(value)}`));
  return [`trial ${trial.number}`, `${plain(data.value)} ${format(trial.value)}`, ...flags].join("<br>");
}

// 0 for the worst trials to SHADES - 1 for the best, by rank.
function shade(trial) {
  const worse = valued.filter(each => better(trial.value, each.value)).length;
  return Math.min(SHADES - 1, Math.floor((SHADES * worse) / Math.max(1, valued.length - 1)));
}

function tint(level) {
  return translucent(color("--accent"), [0.12, 0.22, 0.38, 0.62, 1][level]);
}

function isLog(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low > 0 && high > 20 * low;
}

function valueAxis(values) {
  const log = isLog(values);
  return {title: plain(data.value), ...(log ? {type: "log"} : {})};
}

function points(shown, x, y) {
  return {
    x,
    y,
    type: "scatter",
    mode: "markers",
    text: shown.map(told),
    hoverinfo: "text",
    marker: {size: 7, color: color("--accent"), opacity: 0.75},
  };
}

function history() {
  if (!valued.length) return null;
  const best = valued.find(trial => trial.number === data.best);
  return figure(
    "Values",
    `best ${format(best.value)} of trial ${best.number}, ${valued.length} trials to their end`,
    () => {
      let soFar = null;
      const line = valued.map(({value}) => (soFar = soFar === null || better(value, soFar) ? value : soFar));
      const numbers = valued.map(trial => trial.number);
      const bestLine = {x: numbers, y: line, type: "scatter", mode: "lines", hoverinfo: "skip"};
      return {
        traces: [
          {...bestLine, line: {shape: "hv", width: 1.8, color: color("--second")}},
          points(valued, numbers, valued.map(trial => trial.value)),
        ],
        layout: layoutOf({title: "trial"}, valueAxis(valued.map(trial => trial.value))),
      };
    },
    {below: legend([["best so far", color("--second")]])},
  );
}

function curves() {
  const shown = trials.filter(trial => trial.curve.length);
  if (!shown.length) return null;
  const numPruned = trials.filter(trial => trial.outcome === "pruned").length;
  return figure(
    "Evaluations",
    `each trial's evaluations; ${numPruned} ended early`,
    () => ({
      traces: shown.map(trial => ({
        x: trial.curve.map((_, place) => place + 1),
        y: trial.curve,
        type: "scatter",
        mode: trial.curve.length < 3 ? "lines+markers" : "lines",
        marker: {size: 4},
        text: trial.curve.map(() => told(trial)),
        hoverinfo: "text",
        line:
          trial.outcome === "done"
            ? {width: 1.4, color: tint(shade(trial))}
            : {width: 1.2, color: translucent(color("--second"), 0.6), dash: "dot"},
      })),
      layout: layoutOf({title: "evaluation"}, valueAxis(shown.flatMap(trial => trial.curve))),
    }),
    {
      below: legend([
        ["the better, the darker", color("--accent")],
        ["ended early", color("--second")],
      ]),
    },
  );
}

function importance() {
  const found = Object.entries(data.importance).sort((a, b) => a[1] - b[1]);
  if (!found.length) return null;
  const [name, share] = found[found.length - 1];
  return figure(
    "Importance",
    `most: ${name}, ${percent(share)}`,
    () => ({
      traces: [
        {
          type: "bar",
          orientation: "h",
          x: found.map(each => each[1]),
          y: found.map(each => plain(each[0])),
          hovertemplate: "%{y}: %{x:.1%}<extra></extra>",
          marker: {color: color("--accent")},
        },
      ],
      layout: layoutOf({title: "share of the variance", tickformat: ".0%"}, {automargin: true, type: "category"}),
    }),
    {height: Math.max(250, 70 + 28 * found.length)},
  );
}

// Where a value lies on the axis of its flag: from 0 to 1.
function scale(flag) {
  const values = valued.map(trial => trial.flags[flag.name]).filter(value => value !== undefined);
  if (values.every(value => typeof value === "number")) {
    const of = flag.log ? Math.log : value => value;
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const place = value => (high > low ? (of(value) - of(low)) / (of(high) - of(low)) : 0.5);
    return {place, marks: high > low ? [low, high] : [low]};
  }
  const choices = [...new Set(values.map(String))].sort();
  const place = value => (choices.length > 1 ? choices.indexOf(String(value)) / (choices.length - 1) : 0.5);
  return {place, marks: choices};
}

function parallel() {
  const axes = data.flags.filter(flag => valued.some(trial => trial.flags[flag.name] !== undefined));
  if (valued.length < 2 || !axes.length) return null;
  return figure(
    "Parallel coordinates",
    "a line for each trial, from flag to flag; the better, the darker",
    () => {
      const scales = axes.map(scale);
      const traces = [...valued]
        .sort((a, b) => shade(a) - shade(b))
        .map(trial => ({
          x: axes.map((_, place) => place),
          y: axes.map((flag, place) =>
            trial.flags[flag.name] === undefined ? null : scales[place].place(trial.flags[flag.name]),
          ),
          type: "scatter",
          mode: "lines+markers",
          connectgaps: true,
          text: axes.map(() => told(trial)),
          hoverinfo: "text",
          line: {width: shade(trial) === SHADES - 1 ? 2 : 1.2, color: tint(shade(trial))},
          marker: {size: 4, color: tint(shade(trial))},
        }));
      const marks = scales.flatMap(({place, marks}, x) =>
        marks.map(mark => ({
          x,
          y: place(mark),
          text: plain(format(mark)),
          showarrow: false,
          xshift: 5,
          xanchor: x === axes.length - 1 && x > 0 ? "right" : "left",
          font: {size: 10, color: color("--soft")},
          bgcolor: color("--card"),
          opacity: 0.85,
        })),
      );
      const lines = axes.map((_, x) => ({
        ...{type: "line", x0: x, x1: x, y0: 0, y1: 1, layer: "below"},
        line: {color: color("--line"), width: 1},
      }));
      const x = {
        tickvals: axes.map((_, place) => place),
        ticktext: axes.map(flag => plain(flag.name)),
        range: [-0.2, axes.length - 0.8],
      };
      const hidden = {showticklabels: false, showgrid: false, range: [-0.05, 1.05]};
      return {traces, layout: layoutOf(x, hidden, {annotations: marks, shapes: lines})};
    },
    {wide: true, height: 340},
  );
}

function slice(flag) {
  const shown = valued.filter(trial => trial.flags[flag.name] !== undefined);
  if (!shown.length) return null;
  const values = shown.map(trial => trial.flags[flag.name]);
  const isNumber = values.every(value => typeof value === "number");
  const best = shown.find(trial => trial.number === data.best);
  const at = best ? `best at ${format(best.flags[flag.name])}` : `${shown.length} trials`;
  return figure(
    flag.name,
    at,
    () => ({
      traces: [points(shown, isNumber ? values : values.map(value => plain(value)), shown.map(trial => trial.value))],
      layout: layoutOf(
        {title: plain(flag.name), type: isNumber ? (flag.log ? "log" : "linear") : "category"},
        valueAxis(shown.map(trial => trial.value)),
      ),
    }),
    {key: "slice " + flag.name},
  );
}

function trialTable() {
  const columns = [
    {title: "trial", number: true, value: trial => trial.number, show: run},
    {title: "outcome", value: trial => trial.outcome},
    {title: data.value, number: true, value: trial => trial.value, show: trial => format(trial.value)},
    {title: "step", number: true, value: trial => trial.step, show: trial => format(trial.step)},
    {title: "evaluations", number: true, value: trial => trial.curve.length},
    {
      title: "time",
      number: true,
      value: trial => trial.seconds,
      show: trial => (trial.seconds === null ? "–" : seconds(trial.seconds)),
    },
    ...data.flags.map(flag => ({
      title: flag.name,
      value: trial => trial.flags[flag.name],
      show: trial => format(trial.flags[flag.name]),
    })),
    {title: "reason", value: trial => trial.reason},
  ];
  const rows = [...trials].sort((a, b) => {
    const [x, y] = [a, b].map(trial => (trial.outcome === "done" ? trial.value : null));
    return x === null || y === null ? (x === null) - (y === null) || a.number - b.number : better(x, y) ? -1 : 1;
  });
  return [table("All trials, the best first", columns, rows, true), pages()];
}

function run(trial) {
  const folder = el("a", {href: trial.folder}, String(trial.number));
  return el("span", {}, folder, trial.report && [" ", el("a", {href: trial.report}, "page")]);
}

function pages() {
  const advice = "python -m mxtrain.report " + (trials.length ? trials[0].folder : "trials/0000/");
  return el("p", {class: "note", style: "margin-top: 14px"}, "A trial is an ordinary run; its page is made by ", el("code", {}, advice), ".");
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
render();
