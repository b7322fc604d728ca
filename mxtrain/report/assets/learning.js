// The sections that are looked at first: the run, its diagnosis, its curves.
// Each is a function from data to an element, or null.

function header(data, run) {
  const many = data.runs.length > 1;
  const head = el(
    "div",
    {class: "title"},
    el("h1", {}, many ? `${data.runs.length} runs` : run.name),
    many ? null : el("span", {class: "state " + run.state.word.replace(" ", "-")}, run.state.word),
  );
  const facts = el(
    "dl",
    {class: "facts"},
    run.facts.map(([name, value, beside]) =>
      el(
        "div",
        {},
        el("dt", {}, name),
        el("dd", {class: "value"}, value),
        beside && el("dd", {class: "beside"}, beside),
      ),
    ),
  );
  const one = el(
    "div",
    {class: "title chosen"},
    many && chooser(data),
    many && el("span", {class: "state " + run.state.word.replace(" ", "-")}, run.state.word),
  );
  return [head, many ? one : null, el("p", {class: "quiet"}, run.state.text), run.facts.length ? facts : null];
}

// Of several runs the one that the sections below the curves are of.
function chooser(data) {
  const select = el(
    "select",
    {
      id: "run",
      onchange: event => {
        view.run = Number(event.target.value);
        render();
      },
    },
    data.runs.map((run, place) => el("option", {value: place, selected: place === view.run}, run.name)),
  );
  return el("label", {}, "Details of ", select);
}

function diagnosis(run) {
  if (!run.axis.steps.length) return null;
  const found = run.findings.map(finding => {
    const [first, last] = finding.steps || [];
    const steps = !finding.steps
      ? ""
      : first === last
        ? `step ${format(first)}`
        : `steps ${format(first)} to ${format(last)}`;
    return el(
      "article",
      {class: "card finding"},
      el("div", {class: "title"}, el("h3", {}, finding.title), steps && el("span", {class: "quiet"}, steps)),
      el(
        "ul",
        {},
        finding.evidence.map(sentence => el("li", {}, sentence)),
      ),
      el("p", {class: "advice"}, withFlags(finding.advice)),
    );
  });
  const none = el("p", {class: "quiet"}, "Nothing stands out in these records.");
  return section("diagnosis", "Diagnosis", "from the records of this run", found.length ? found : none);
}

// A sentence whose flags, with their values, look like what is typed. Of words only these are values, and those that
// hold what no word holds; a value ends before the sentence's own full stop or colon.
const WORDS = "(?:ram|disk|balanced|auto|processes|fast|msra|none)\\b";
const NUMBER = "[^a-z\\s(;,-](?:[^\\s;,)]*[^\\s;,):.])?";
const SPELLED = "[a-z][^\\s;,)]*(?:[+=/_\\d]|:(?=\\S))(?:[^\\s;,)]*[^\\s;,):.])?";
const FLAG = new RegExp(`(--[a-z][a-z0-9-]*(?: (?:${WORDS}|${NUMBER}|${SPELLED}))?)`);

function withFlags(sentence) {
  return sentence.split(FLAG).map(part => (FLAG.test(part) ? el("code", {}, part) : part));
}

function learning(data) {
  const names = [...new Set(data.runs.flatMap(run => run.curves.map(curve => curve.name)))];
  if (!names.length) {
    return section("curves", "Curves", null, el("p", {class: "quiet"}, "No step has been recorded yet."));
  }
  const many = data.runs.length > 1;
  const tints = colors("--series");
  const items = many
    ? data.runs.map((run, place) => [run.name, tints[place % tints.length]])
    : [
        ["training", color("--accent")],
        ["validation", color("--second")],
      ];
  const isWide = names.length % 2 === 1;
  const figures = names.map(name => {
    const found = data.runs
      .map((run, place) => ({run, place, curve: run.curves.find(each => each.name === name)}))
      .filter(each => each.curve);
    const {title} = found[0].curve;
    return figure(
      title,
      toldOf(found, many),
      () => {
        const lines = found.flatMap(each => each.curve.lines);
        const traces = found
          .flatMap(({run, place, curve}) =>
            curve.lines.map(line => {
              const isValidation = line.name === "validation";
              const tint = many
                ? colors("--series")[place % tints.length]
                : color(isValidation ? "--second" : "--accent");
              return lineTraces(
                run,
                line,
                tint,
                many ? `${run.name} ${line.name}` : line.name,
                isValidation,
                SMOOTH.has(name),
              );
            }),
          )
          .flat();
        const isLog = view.log && isPositive(lines);
        const marks = many ? {} : eventMarks(found[0].run);
        return {
          traces,
          layout: layoutOf(
            {title: xTitle(), range: rangeOf(found)},
            {type: isLog ? "log" : "linear"},
            {...marks, hovermode: "x"},
          ),
        };
      },
      {
        wide: isWide && name === names[0],
        height: isWide && name === names[0] ? 300 : 240,
        brief: many && briefOf(found),
      },
    );
  });
  const note = many && "Solid lines are of training, dotted ones of validation.";
  return section("curves", "Curves", note, controls(data), legend(items), el("div", {class: "grid"}, figures));
}

const SMOOTH = {has: name => !["lr", "loss_scale", "skipped_steps", "bad_records"].includes(name)};

// From the first step of any of these runs to a little behind the last.
function rangeOf(found) {
  const ends = found.flatMap(({run}) =>
    [run.axis.steps[0], run.axis.steps[run.axis.steps.length - 1]].map(step => xOf(run, step)),
  );
  const first = Math.min(...ends),
    last = Math.max(...ends);
  const beside = (last - first || 1) * 0.015;
  return [first - beside, last + beside];
}

// The last value of each line, and its extreme.
function toldOf(found, many) {
  return found
    .flatMap(({run, curve}) =>
      curve.lines.map(line => {
        const who = many ? `${run.name}, ${line.name}` : line.name;
        const [which, [value, step]] = extremeOf(curve, line);
        return `${who} ${format(line.summary.last)}, ${which} ${format(value)} at step ${format(step)}`;
      }),
    )
    .join(" · ");
}

// Of several runs the one with the extreme, of validation where that has been recorded.
function briefOf(found) {
  const kind = found.some(({curve}) => curve.lines.some(line => line.name === "validation"))
    ? "validation"
    : "training";
  const all = found.flatMap(({run, curve}) =>
    curve.lines.filter(line => line.name === kind).map(line => ({run, extreme: extremeOf(curve, line)})),
  );
  const sign = all[0].extreme[0] === "lowest" ? 1 : -1;
  const {
    run,
    extreme: [which, [value, step]],
  } = all.sort((a, b) => sign * (a.extreme[1][0] - b.extreme[1][0]))[0];
  return `${which} of ${kind} ${format(value)}, ${run.name}, step ${format(step)}`;
}

const LOWER_IS_BETTER = ["loss", "ece", "perplexity", "bits_per_byte", "mae", "mse", "rmse"];

function extremeOf(curve, line) {
  // Of several targets each has numbers of its own, as mae_price.
  const kinds = [curve.name, curve.name.split("_")[0]];
  const isLower = kinds.some(kind => LOWER_IS_BETTER.includes(kind));
  return isLower ? ["lowest", line.summary.lowest] : ["highest", line.summary.highest];
}

function controls(data) {
  const radio = (value, label) =>
    el(
      "label",
      {},
      el("input", {
        type: "radio",
        name: "x",
        value,
        checked: view.x === value,
        onchange: () => {
          view.x = value;
          redraw();
        },
      }),
      label,
    );
  const hasEpochs = data.runs.every(run => run.axis.stepsPerEpoch);
  return el(
    "div",
    {class: "controls"},
    el(
      "fieldset",
      {},
      el("legend", {}, "Over"),
      radio("step", "steps"),
      hasEpochs && radio("epoch", "epochs"),
      radio("time", "time"),
    ),
    el(
      "label",
      {},
      el("input", {
        type: "checkbox",
        id: "log",
        checked: view.log,
        onchange: event => {
          view.log = event.target.checked;
          redraw();
        },
      }),
      "logarithmic",
    ),
    el(
      "label",
      {},
      "Smoothing",
      el("input", {
        type: "range",
        id: "smooth",
        min: 0,
        max: 0.98,
        step: 0.02,
        value: view.smooth,
        oninput: event => {
          view.smooth = Number(event.target.value);
          redraw();
        },
      }),
    ),
  );
}
