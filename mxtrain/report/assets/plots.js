// Plots: how they look, and the one place that calls Plotly.

const SETTINGS = {displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset"};
const IS_COARSE = matchMedia("(pointer: coarse)").matches; // there a drag scrolls the page
const waiting = []; // plots that are still to be drawn: {node, make}
let drawn = [];
const kept = new Map(); // the element of each plot by its key: drawn again, it neither flickers nor loses its zoom

// A figure: heading, a line of numbers, the plot and its legend. `make` gives {traces, layout}; `told` says it in
// words, `options.brief` in fewer, where those are too many to be looked at.
function figure(title, told, make, options = {}) {
  const key = `${view.run}/${options.key || title}`;
  const node = kept.get(key) || el("div", {class: "plot", role: "img"});
  kept.set(key, node);
  node.setAttribute("aria-label", told ? `${title}: ${told}` : title);
  node.style.height = (options.height || 250) + "px";
  const box = el(
    "figure",
    {class: options.wide ? "card wide" : "card"},
    el("figcaption", {}, el("h3", {}, title), el("p", {class: "quiet"}, options.brief || told)),
    node,
    options.below,
  );
  waiting.push({node, make});
  return box;
}

// Draws what waits, one plot at a time, so that the page answers in between.
function drawWaiting() {
  const next = waiting.shift();
  if (!next) {
    document.documentElement.dataset.plots = "drawn";
    performance.mark("drawn");
    return;
  }
  if (next.node.isConnected) {
    draw(next);
    drawn.push(next);
  }
  setTimeout(drawWaiting, 0);
}

function redraw() {
  drawn = drawn.filter(each => each.node.isConnected);
  drawn.forEach(draw);
}

function draw({node, make}) {
  const {traces, layout} = make();
  Plotly.react(node, traces, {...layout, uirevision: view.x, height: parseInt(node.style.height, 10)}, SETTINGS);
}

function layoutOf(x, y, more = {}) {
  const axis = given => ({
    gridcolor: color("--grid"),
    linecolor: color("--line"),
    zeroline: false,
    ticks: "",
    automargin: false, // of names alone, where it is asked for: it draws a plot twice
    tickfont: {size: 11},
    nticks: 6,
    fixedrange: IS_COARSE,
    ...given,
    title: {text: given.title || "", font: {size: 11}, standoff: 8},
  });
  return {
    margin: {l: 50, r: 12, t: 10, b: 42},
    showlegend: false,
    hovermode: "closest",
    bargap: 0.25,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    dragmode: IS_COARSE ? false : "zoom",
    font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: color("--soft")},
    hoverlabel: {bgcolor: color("--card"), bordercolor: color("--line"), font: {color: color("--ink"), size: 12}},
    ...more,
    xaxis: axis({...x, gridcolor: "rgba(0,0,0,0)"}),
    yaxis: axis(y),
  };
}

function translucent(tint, share) {
  const value = parseInt(tint.slice(1), 16);
  return `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${share})`;
}

// ---------------------------------------------------------------------------------------------------------------------
// Curves over steps, epochs or hours

// What a step of a run is on the x axis that is chosen.
function xOf(run, step) {
  const {steps, stepsPerEpoch} = run.axis;
  if (view.x === "epoch" && stepsPerEpoch) return step / stepsPerEpoch;
  if (view.x !== "time" || !steps.length) return step;
  const {factor} = clock(data.runs.flatMap(each => each.axis.hours.slice(-1)));
  return factor * hoursAt(run.axis, step);
}

function hoursAt({steps, hours}, step) {
  let low = 0,
    high = steps.length - 1;
  if (step >= steps[high]) return hours[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle;
    else high = middle;
  }
  const share = (step - steps[low]) / (steps[high] - steps[low] || 1);
  return hours[low] + Math.max(share, 0) * (hours[high] - hours[low]);
}

function xTitle() {
  return {step: "step", epoch: "epoch", time: clock(data.runs.flatMap(run => run.axis.hours.slice(-1))).unit}[
    view.x
  ];
}

// Hours as seconds or minutes where there are few.
function clock(hours) {
  const most = hours.reduce((a, b) => Math.max(a, b), 0);
  const [unit, factor] = most < 0.05 ? ["seconds", 3600] : most < 2 ? ["minutes", 60] : ["hours", 1];
  return {unit, factor, values: hours.map(value => value * factor)};
}

// The points as an average that looks back; 0 leaves them.
function smoothed(values, share) {
  let weight = 0,
    sum = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = sum * share + value;
    weight = weight * share + 1;
    return sum / weight;
  });
}

// The traces of one line: the band between its extremes, its points, and the smoothed line.
function lineTraces(run, line, tint, label, isDotted, isNoisy = true) {
  const x = line.step.map(step => xOf(run, step));
  const base = {x, type: "scatter", mode: "lines", hoverinfo: "skip"};
  const share = isDotted || !isNoisy || line.y.length < 20 ? 0 : view.smooth;
  const few = line.y.length <= 40;
  const traces = [];
  if (line.low) {
    const edge = {...base, line: {width: 0}};
    traces.push(
      {...edge, y: line.low},
      {...edge, y: line.high, fill: "tonexty", fillcolor: translucent(tint, 0.14)},
    );
  } else if (share) {
    traces.push({...base, y: line.y, line: {width: 1, color: translucent(tint, 0.25)}});
  }
  traces.push({
    ...base,
    y: smoothed(line.y, share),
    hoverinfo: "x+y+name",
    name: plain(label),
    mode: isDotted || few ? "lines+markers" : "lines",
    marker: {size: isDotted ? 6 : 4, color: tint},
    line: {width: isDotted ? 1.5 : 1.8, color: tint, dash: isDotted ? "dot" : "solid"},
  });
  return traces;
}

const NAME_SHARE = 0.12; // of a plot's width, that the name of an event takes on a phone

// Marks of what happened to a run, at its steps.
function eventMarks(run) {
  const tints = {
    restart: "--bad",
    stop: "--warn",
    skipped_step: "--warn",
    bad_record: "--warn",
    checkpoint: "--soft",
  };
  const marks = run.events.filter(event => tints[event.event]);
  const shapes = marks.map(event => {
    const isWhole = event.event === "restart" || event.event === "stop";
    const x = xOf(run, event.step);
    return {
      type: "line",
      x0: x,
      x1: x,
      yref: "paper",
      y0: 0,
      y1: isWhole ? 1 : 0.035,
      layer: "below",
      line: {color: color(tints[event.event]), width: isWhole ? 1.2 : 1.5, dash: isWhole ? "dash" : "solid"},
    };
  });
  const named = marks
    .filter(event => event.event === "restart" || event.event === "stop")
    .slice(-12);
  const rows = rowsOf(run, named);
  const annotations = named.map((event, number) => ({
    x: xOf(run, event.step),
    yref: "paper",
    y: 1,
    yanchor: "top",
    xanchor: "left",
    showarrow: false,
    xshift: 3,
    yshift: -12 * rows[number],
    text: plain(event.event),
    font: {size: 10, color: color(tints[event.event])},
  }));
  return {shapes, annotations};
}

// For the name of each event the first row, from above, in which no name before it is so near that both would overlap.
function rowsOf(run, events) {
  const {steps} = run.axis;
  const [first, last] = [steps[0], steps[steps.length - 1]].map(step => xOf(run, step));
  const near = NAME_SHARE * (last - first);
  const rows = [];
  events.forEach((event, number) => {
    const x = xOf(run, event.step);
    const taken = rows.filter((_, before) => Math.abs(xOf(run, events[before].step) - x) <= near);
    rows[number] = [...taken.keys(), taken.length].find(row => !taken.includes(row));
  });
  return rows;
}

function isPositive(lines) {
  return lines.every(line => (line.low || line.y).every(value => value === null || value > 0));
}
