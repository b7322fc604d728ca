// The page: one renderer for a file and for a run that goes on.

const POLL_SECONDS = 2;
const view = {run: 0, x: "step", log: false, smooth: 0.6, layers: "gradients", open: new Set()};
let data = JSON.parse(document.getElementById("data").textContent);

function render() {
  const run = data.runs[Math.min(view.run, data.runs.length - 1)];
  const had = document.activeElement && document.activeElement.id;
  document.documentElement.dataset.plots = "drawing";
  waiting.length = 0;
  const parts = [
    diagnosis(run),
    learning(data),
    compared(data),
    time(run),
    layers(run),
    machines(run),
    classes(run),
    samples(run),
    happened(run),
    settings(run),
  ];
  const sections = parts.flat().filter(Boolean);
  document.getElementById("top").replaceChildren(...header(data, run).filter(Boolean));
  document.getElementById("main").replaceChildren(...sections);
  document.getElementById("contents").replaceChildren(
    el(
      "ul",
      {},
      sections.map(each => el("li", {}, el("a", {href: "#" + each.id}, each.dataset.name))),
    ),
  );
  document.getElementById("foot").replaceChildren(footnote(run));
  if (had && had !== "main") document.getElementById(had)?.focus();
  drawn = [];
  drawWaiting();
}

function footnote(run) {
  const damaged = run.damaged ? ` ${format(run.damaged)} damaged lines were left out.` : "";
  return el(
    "p",
    {},
    (data.live ? "Live, as of " : "Made on ") + data.made + " by mxtrain.report." + damaged,
  );
}

// A live page asks for what has changed since; the server answers with the whole of the runs that have.
async function poll() {
  try {
    const known = data.runs.map(run => run.version).join(",");
    const answer = await fetch("data.json?known=" + known, {cache: "no-store"});
    if (answer.ok) update(await answer.json());
  } catch {
    document.getElementById("foot").replaceChildren("The server has ended; this is how far it came.");
  }
  setTimeout(poll, POLL_SECONDS * 1000);
}

function update(news) {
  const runs = news.runs.map((run, place) => run || data.runs[place]);
  const hasChanged = news.runs.some(Boolean);
  data = {...news, runs};
  if (hasChanged) render();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
render();
if (data.live) poll();
