"use strict";
// What the rest of the page is made with. Text of runs comes in by textContent and attributes alone, never as markup.

const SVG_TEXT_LENGTH = 48; // of a name in a plot; whole ones are in tables

// An element with these attributes and children; a string is a text. What is null is left out.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "color") node.style.background = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

// A text as Plotly shows it as it is: it would take some tags and entities for markup.
function plain(text) {
  const whole = String(text).replace(/\s+/g, " ");
  const short = whole.length > SVG_TEXT_LENGTH ? whole.slice(0, SVG_TEXT_LENGTH - 1) + "…" : whole;
  return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function format(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function percent(share) {
  return share === null || share === undefined ? "–" : (100 * share).toFixed(share < 0.1 ? 1 : 0) + "%";
}

function seconds(value) {
  if (value < 1e-3) return (value * 1e6).toFixed(0) + " µs";
  if (value < 1) return (value * 1e3).toPrecision(3) + " ms";
  if (value < 60) return value.toPrecision(3) + " s";
  if (value < 3600) return (value / 60).toFixed(1) + " min";
  return (value / 3600).toFixed(1) + " h";
}

function bytes(value) {
  return value === null || value === undefined ? "–" : (value / 2 ** 30).toFixed(2) + " GiB";
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colors(name) {
  return color(name).split(" ");
}

const NAMES = {samples: "Samples", augmented: "Augmented", time: "Time"}; // of sections, shorter than their titles

// A section with its heading, or null where it has no content.
function section(id, title, quiet, ...children) {
  const content = children.flat(Infinity).filter(Boolean);
  if (!content.length) return null;
  const head = el(
    "div",
    {class: "head"},
    el("h2", {id: id + "-title"}, title),
    quiet && el("p", {class: "quiet"}, quiet),
  );
  return el("section", {id, "aria-labelledby": id + "-title", "data-name": NAMES[id] || title}, head, content);
}

function legend(items, block) {
  return el(
    "ul",
    {class: "legend"},
    items.map(([name, tint]) =>
      el("li", {}, el("span", {class: block ? "swatch block" : "swatch", color: tint}), name),
    ),
  );
}

// A table. Columns are {title, number, value, show, code}; those of a sortable one sort by their value.
function table(caption, columns, rows, sortable) {
  const body = el("tbody", {});
  const fill = sorted =>
    body.replaceChildren(
      ...sorted.map(row =>
        el(
          "tr",
          {},
          columns.map((column, place) => {
            const shown = column.show ? column.show(row) : column.value(row);
            const kind = (column.number ? "number" : "long") + (column.code ? " code" : "");
            return el(place ? "td" : "th", {class: kind, scope: place ? null : "row"}, shown ?? "–");
          }),
        ),
      ),
    );
  const heads = columns.map(column =>
    el(
      "th",
      {scope: "col", class: column.number ? "number" : "long"},
      sortable ? el("button", {type: "button", onclick: () => sort(column)}, column.title) : column.title,
    ),
  );
  function sort(column) {
    const head = heads[columns.indexOf(column)];
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(each => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const sign = up ? 1 : -1;
    fill([...rows].sort((a, b) => sign * compare(column.value(a), column.value(b))));
  }
  fill(rows);
  return el(
    "div",
    {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), body),
  );
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

// Content that is shown when asked for, and stays so while the page is drawn again.
function disclosure(title, content) {
  const remember = event => (event.target.open ? view.open.add(title) : view.open.delete(title));
  return el("details", {open: view.open.has(title), ontoggle: remember}, el("summary", {}, title), content);
}
