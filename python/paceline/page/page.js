// What Bokeh has not: the reader's theme, keys and buttons, choices, tables that sort, and a row in full.
(() => {
"use strict";
let figures = [];
const models = (plot) => [...plot.references()];

// Colours. A model's tags name those that it takes from the page: "line_color=ink".
function colors(tags) {
  const style = getComputedStyle(document.documentElement);
  const pairs = tags.map((tag) => String(tag).split("=")).filter((pair) => pair.length === 2);
  return Object.fromEntries(pairs.map(([property, part]) => [property, style.getPropertyValue("--" + part).trim()]));
}
function paint(value) {
  if (value === null || typeof value !== "object") return;
  if (value.attributes?.tags) Object.assign(value.attributes, colors(value.attributes.tags));
  Object.values(value).forEach(paint);
}
function repaint() {
  for (const { plot } of figures)
    for (const model of models(plot)) if (model.tags.length) model.setv(colors(model.tags));
}
matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", repaint);

// Selects and legends: of every source with their columns, what is shown.
function narrow({ element, plot }) {
  const kept = [];
  const sources = new Set(models(plot).filter((model) => model.type === "ColumnDataSource").map(({ data }) => data));
  for (const select of element.querySelectorAll("select[data-column]")) {
    const { column } = select.dataset;
    if (kept.length) offer(select, [...sources].filter((data) => column in data), column, kept);
    const option = select.selectedOptions[0];
    if (!("all" in option.dataset)) kept.push([column, (value) => value === option.value]);
  }
  const off = [...element.querySelectorAll("button[aria-pressed=false]")].map((button) => button.dataset.line);
  if (off.length) kept.push(["line", (value) => !off.includes(value)]);
  for (const renderer of models(plot).filter((model) => model.type === "GlyphRenderer")) {
    const { filter } = renderer.view;
    if (filter.type !== "BooleanFilter") continue;
    const data = renderer.data_source.data;
    const tests = kept.filter(([column]) => column in data);
    const count = renderer.data_source.get_length() ?? 0;
    filter.booleans = tests.length
      ? Array.from({ length: count }, (_, row) => tests.every(([column, test]) => test(data[column][row])))
      : null;
  }
}
// Of a select that follows another: what is left to choose from.
function offer(select, sources, column, kept) {
  const left = new Set(sources.flatMap((data) => [...data[column]].filter((_, row) =>
    kept.every(([other, test]) => !(other in data) || test(data[other][row])))));
  for (const option of select.options) option.hidden = option.disabled = !("all" in option.dataset) && !left.has(option.value);
  if (select.selectedOptions[0].disabled) select.value = [...select.options].find((option) => !option.disabled).value;
}
function choose(figure) {
  for (const select of figure.element.querySelectorAll("select[data-column]"))
    select.addEventListener("change", () => narrow(figure));
  for (const button of figure.element.querySelectorAll("button[data-line]"))
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
      narrow(figure);
    });
  if (figure.element.querySelector("select[data-column]")) narrow(figure);
}

// Choices that the chart makes something of by itself.
function tell({ element, plot }) {
  for (const input of element.querySelectorAll("[data-event]"))
    input.addEventListener("change", () => {
      const value = input.type === "checkbox" ? input.checked : input.value;
      plot.trigger_event({ event_name: input.dataset.event, value });
    });
}

// Pan and zoom, by buttons and keys.
const KEYS = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
  "+": "in", "=": "in", "-": "out", Home: "reset",
};
function navigate({ element, plot }) {
  const { x_range: x, y_range: y } = plot;
  const home = [x, y].map((range) => [range.start, range.end]);
  const ends = [x, y].map(({ start, end, bounds }, i) =>
    Array.isArray(bounds) ? bounds.toSorted((a, b) => start < end ? a - b : b - a) : home[i]);
  function shift(range, share, [first, last]) {
    const most = share > 0 ? last - range.end : first - range.start;
    const wanted = share * (range.end - range.start);
    const by = Math.abs(wanted) < Math.abs(most) ? wanted : most;
    range.setv({ start: range.start + by, end: range.end + by });
  }
  function zoom(factor) {
    const [first, last] = ends[0];
    const width = Math.max((x.end - x.start) * factor, x.min_interval ?? 0);
    const half = width / 2, middle = (x.start + x.end) / 2;
    x.setv({ start: Math.max(first, middle - half), end: Math.min(last, middle + half) });
  }
  const moves = {
    left: () => shift(x, -0.25, ends[0]),
    right: () => shift(x, 0.25, ends[0]),
    down: () => shift(y, -0.25, ends[1]),
    up: () => shift(y, 0.25, ends[1]),
    in: () => zoom(0.5),
    out: () => zoom(2),
    reset: () => [x, y].forEach((range, i) => range.setv({ start: home[i][0], end: home[i][1] })),
  };
  for (const button of element.querySelectorAll("button[data-move]"))
    button.addEventListener("click", () => moves[button.dataset.move]());
  element.querySelector(".plot").addEventListener("keydown", (event) => {
    const move = moves[KEYS[event.key]];
    if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    move();
  });
}

// Elements without markup in strings: what data says stays text.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const MOST = 160, WORD = 32;
function words(text) {
  if (text.length <= WORD && !text.includes(" ")) return make("bdi", { class: "word" }, text);
  if (text.length <= MOST) return make("bdi", {}, text);
  return make("details", { class: "long" },
    make("summary", {}, make("bdi", {}, text.slice(0, MOST) + "…")), make("bdi", {}, text));
}

// A row in full.
const dialog = document.querySelector("dialog");
dialog.querySelector("button").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
function open({ title, heads, rows, text, code }) {
  const parts = [make("h2", { id: "dialog-title" }, make("bdi", {}, title))];
  if (text) parts.push(make("p", {}, words(text)));
  if (rows.length) {
    parts.push(make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, words(cell))))))));
  }
  if (code) parts.push(make("pre", { tabindex: "0", role: "region", "aria-label": "Command" }, make("code", {}, make("bdi", {}, code))));
  dialog.firstElementChild.replaceChildren(...parts);
  dialog.showModal();
}

// Tables that sort and filter, in pages.
const PAGE = 50;
const tables = {};
function table(element) {
  const data = JSON.parse(element.querySelector("script").textContent);
  const sought = data.rows.map((row) => row.join("\n").toLowerCase() + "\n" + row.join("\n").replaceAll(",", ""));
  const input = element.querySelector("input");
  const [previous, next] = element.querySelectorAll("[data-turn]");
  const heads = data.columns.map((name, column) => {
    const button = make("button", { type: "button" }, make("bdi", {}, name));
    const head = make("th", { scope: "col", "aria-sort": "none", class: data.numeric[column] ? "number" : "" }, button);
    button.addEventListener("click", () => {
      up = sorted === column ? !up : true;
      sorted = column;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      show(0);
    });
    return head;
  });
  const body = make("tbody", {});
  const more = data.details.length ? [make("th", { scope: "col" }, make("span", { class: "hidden" }, data.opens))] : [];
  element.querySelector("table").append(make("thead", {}, make("tr", {}, ...heads, ...more)), body);
  let sorted = -1, up = true, first = 0;
  function row(i) {
    const cells = data.rows[i].map((text, column) => make("td", { class: data.numeric[column] ? "number" : "" }, words(text)));
    if (data.details.length) {
      const button = make("button", { type: "button", "aria-label": data.opens + ": " + data.details[i].title }, data.opens);
      button.addEventListener("click", () => open(data.details[i]));
      cells.push(make("td", {}, button));
    }
    return make("tr", {}, ...cells);
  }
  function show(from) {
    const wanted = input.value.trim().toLowerCase().split(/\s+/);
    const found = sought.flatMap((text, i) => wanted.every((word) => text.includes(word)) ? [i] : []);
    if (sorted >= 0) {
      const ranks = data.ranks[sorted];
      found.sort((a, b) => up ? ranks[a] - ranks[b] : ranks[b] - ranks[a]);
    }
    first = Math.max(0, Math.min(from, found.length - 1));
    first -= first % PAGE;
    const last = Math.min(first + PAGE, found.length);
    body.replaceChildren(...found.slice(first, last).map(row));
    const all = data.rows.length.toLocaleString("en");
    const some = found.length.toLocaleString("en");
    element.querySelector(".count").textContent = found.length === data.rows.length ? `${all} rows` : `${some} of ${all} rows`;
    element.querySelector(".pages").hidden = found.length <= PAGE;
    element.querySelector(".pages span").textContent = `${first + 1} to ${last} of ${some}`;
    previous.disabled = first === 0;
    next.disabled = last === found.length;
  }
  input.addEventListener("input", () => show(0));
  previous.addEventListener("click", () => show(first - PAGE));
  next.addEventListener("click", () => show(first + PAGE));
  tables[element.id] = data;
  show(0);
}
document.querySelectorAll(".table").forEach(table);

// A click on a point opens its row.
function reveal({ element, plot }) {
  const { opens } = element.dataset;
  if (!opens) return;
  for (const source of new Set(models(plot).filter((model) => model.type === "ColumnDataSource"))) {
    if (!("row" in source.data)) continue;
    source.selected.change?.connect?.(() => {
      const [point] = source.selected.indices;
      if (point === undefined) return;
      source.selected.indices = [];
      open(tables[opens].details[source.data.row[point]]);
    });
  }
}

// A wide table is scrolled by keys; one that isn't wide needs no stop of the Tab key.
function stops() {
  for (const region of document.querySelectorAll(".wide, pre"))
    region.tabIndex = region.scrollWidth > region.clientWidth || region.scrollHeight > region.clientHeight ? 0 : -1;
}

// Charts of the page, or of a part of it that is new.
async function embed({ document: json, figures: names }, within) {
  paint(json);
  const elements = names.map((name) => within.querySelector("#" + CSS.escape(name)));
  const places = Object.fromEntries(json.roots.map(({ id }, i) => [id, elements[i].querySelector(".plot")]));
  const [views] = await Bokeh.embed.embed_items({ page: json }, [{ docid: "page", roots: places, root_ids: Object.keys(places) }]);
  const charts = Bokeh.documents.at(-1);
  const roots = charts.roots();
  for (const root of roots) Bokeh.index.find_one(root).canvas_view.events_el.tabIndex = -1; // it has no name
  const found = elements.map((element, i) => ({ element, plot: roots[i] }));
  for (const figure of found) {
    if ("navigable" in figure.element.dataset) navigate(figure);
    choose(figure);
    tell(figure);
    reveal(figure);
  }
  stops();
  function forget() {
    views.clear();
    Bokeh.documents.splice(Bokeh.documents.indexOf(charts), 1);
  }
  return [found, forget];
}

// Of a sweep that runs: what is new, each second. Charts are drawn anew, and left as the reader had them.
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function grow({ curves, plots }, old) {
  const next = make("div", { class: "coming" });
  next.innerHTML = curves;
  document.getElementById("curves").append(next);
  const [found, forget] = await embed(plots, next);
  for (const figure of found) {
    const before = old && old.box.querySelector("#" + CSS.escape(figure.element.id));
    if (!before) continue;
    for (const { dataset: { line } } of before.querySelectorAll("button[aria-pressed=false]"))
      figure.element.querySelector(`button[data-line="${CSS.escape(line)}"]`)?.setAttribute("aria-pressed", "false");
    narrow(figure);
    figure.element.querySelector(".data").open = before.querySelector(".data").open;
    const at = [...before.querySelectorAll("button, summary")].indexOf(document.activeElement);
    if (at >= 0) figure.element.querySelectorAll("button, summary")[at]?.focus({ preventScroll: true });
  }
  figures = found;
  next.className = "";
  old?.forget();
  old?.box.remove();
  return { box: next, forget };
}
async function watch() {
  const summary = document.getElementById("summary");
  let shown = 0, charts = null;
  for (;; await pause(1000)) {
    let state;
    try {
      state = await (await fetch("/state.json")).json();
    } catch {
      if (!document.getElementById("ended")) summary.append(make("p", { id: "ended", class: "notice" }, "The server has ended; this is what it showed last."));
      continue;
    }
    summary.innerHTML = state.summary;
    if (state.version === shown) continue;
    charts = await grow(state, charts);
    shown = state.version;
    document.documentElement.dataset.version = shown;
  }
}

Bokeh.logger.set_level("error");
addEventListener("resize", stops);
document.addEventListener("toggle", stops, true);
embed(JSON.parse(document.getElementById("plots").textContent), document).then(([found]) => {
  figures = found;
  document.documentElement.dataset.ready = "";
  if ("live" in document.body.dataset) watch();
});
})();
