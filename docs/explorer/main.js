// The page: what is typed and where the pointer is, in; what is shown, out. The address holds the state, so every map has a link.

import { Answers, Superseded } from "./answers.js";
import { at, drawing, formula, html } from "./dom.js";
import { Matrix } from "./matrix.js";
import { Operations } from "./operations.js";
import { Structure } from "./structure.js";

const PAGE = 12; // operations in an answer, as in explorer.py
const PAUSE = 50; // milliseconds without a key after which the map is looked at
const CLOSING = { "": "", "(": ")", "{": "}", "[": "]", "<": ">" };
const ENGINE = {
  loading: "Loading Python …",
  ready: "",
  busy: "",
  absent: "Built without Python: the examples are all it can show.",
  failed: "Python could not be loaded.",
};

const state = { map: "", overlap: 1, nodes: null, operation: null, row: null };
let site = { examples: [], python: null };
let shown = null; // the answer on the page: { summary, entries }
let pointed = null; // a place of the matrix, or an operation, under the pointer
let turn = 0; // counts what was asked for, so that late answers are not shown

const answers = new Answers((status) => {
  at("engine").textContent = ENGINE[status];
  document.documentElement.dataset.engine = status;
});
const matrix = new Matrix(at("matrix"), (place) => point(place && { place }));
const structure = new Structure(at("structure"), (row) => set({ row }));
const operations = new Operations(at("operations"), {
  fetchPage: (page) => ask("operations", page),
  point: (operation) => point(operation && { operation }),
  choose: ({ number }) => set({ operation: state.operation === number ? null : number }),
});

const ask = (name, ...more) => answers.ask(name, state.map, state.overlap, ...more);

// --- the address ---------------------------------------------------------------------------------------------------------------------

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d{1,9}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  const map = given.get("map") ?? site.examples[0]?.text ?? "i j -> i j";
  Object.assign(state, { map, overlap: number("overlap") ?? 1, nodes: number("nodes"), operation: number("op"), row: number("row") });
}

function writeAddress(isNew) {
  const said = new URLSearchParams({ map: state.map });
  if (state.overlap !== 1) said.set("overlap", state.overlap);
  if (state.nodes !== null) said.set("nodes", state.nodes);
  if (state.operation !== null) said.set("op", state.operation);
  if (state.row !== null) said.set("row", state.row);
  history[isNew ? "pushState" : "replaceState"](null, "", `#${said}`);
}

// --- what changes --------------------------------------------------------------------------------------------------------------------

// Another map.
function go(map, { isNew = false, since = performance.now() } = {}) {
  Object.assign(state, { map, overlap: 1, nodes: null, operation: null, row: null });
  writeAddress(isNew);
  return show(since);
}

// Another look at the same map.
async function set(change) {
  Object.assign(state, change);
  writeAddress(false);
  markChosen();
  if ("nodes" in change) await showEntries(turn);
  light();
}

// On a phone what an operation reads lies over the page while one is chosen.
function markChosen() {
  document.body.classList.toggle("has-chosen", state.operation !== null);
}

function point(what) {
  pointed = what;
  if (shown) light();
}

// --- an answer -----------------------------------------------------------------------------------------------------------------------

async function show(since = performance.now()) {
  const mine = ++turn;
  pointed = null;
  answers.forget();
  at("answer").classList.add("stale");
  markChosen();
  markExample();
  try {
    await prepare(state.map);
    const [summary, page] = await Promise.all([ask("summary"), ask("operations", 0)]);
    if (mine !== turn) return;
    if (summary.error) return refuse(summary.error);
    shown = { summary, entries: null, resting: restingOf(page) };
    accept();
    showSummary(summary);
    operations.show(summary, PAGE, page);
    finished(since);
    await showEntries(mine);
    if (mine !== turn) return;
    await light();
    if (state.operation !== null) await operations.scrollTo(state.operation);
  } catch (error) {
    if (!(error instanceof Superseded) && mine === turn) refuse(error.message);
  }
}

// Answers for the examples are files beside the page.
async function prepare(text) {
  const example = site.examples.find((one) => one.text === text);
  if (example && !example.isLoaded) {
    answers.learn(await (await fetch(example.file)).json());
    example.isLoaded = true;
  }
}

function refuse(message) {
  at("problem").textContent = message.replace(/^\n/, "");
  at("problem").hidden = false;
  at("map").setAttribute("aria-invalid", "true");
}

function accept() {
  at("problem").hidden = true;
  at("map").removeAttribute("aria-invalid");
  at("answer").hidden = false;
  at("answer").classList.remove("stale");
}

function finished(since) {
  const took = performance.now() - since;
  document.documentElement.dataset.shown = state.map;
  document.documentElement.dataset.took = took.toFixed(1);
  at("time").textContent = `This answer took ${took < 1 ? "less than 1" : Math.round(took)} ms.`;
}

const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

function showSummary(summary) {
  const isProduct = summary.kind === "products";
  const number = (count, one, many) => [html("strong", {}, count.toLocaleString("en")), ` ${plural(count, one, many).split(" ").slice(1).join(" ")}`];
  const biases = isProduct ? [] : [" ", html("span", { class: "and" }, "and "), ...number(summary.num_biases, "bias", "biases")];
  at("count").replaceChildren(...number(summary.dimension, isProduct ? "product" : "operation"), ...biases);
  at("sentence").textContent = sentence(summary);
  at("operations-title").textContent = isProduct ? "Products" : "Operations";
  at("overlap-option").hidden = !summary.is_open;
  at("overlap").value = state.overlap;
  showSmall(summary);
  showOrbits(summary);
  showCode(summary.code);
  const left = summary.dimension - summary.listed;
  at("unlisted").hidden = left <= 0;
  at("unlisted").textContent = `${left.toLocaleString("en")} more are not listed here; incidence explain --all lists up to a million.`;
}

function sentence({ is_open: isOpen, is_oriented: isOriented, enough_nodes: enough }) {
  const bounds = Object.entries(enough ?? {}).filter(([, count]) => count > 1);
  const many = bounds.map(([sort, count]) => `${count} nodes${sort === "node" ? "" : ` of sort ${sort}`}`).join(" and ");
  const open = isOpen ? `With at most ${plural(state.overlap, "node")} matched in faces of any size. ` : "";
  const odd = isOriented ? "Values of an oriented face change sign when two of its nodes are exchanged. " : "";
  return `${many ? `Independent from ${many} on; that is all there are. ` : isOpen ? "" : "That is all there are. "}${open}${odd}`;
}

// The dimension at few nodes, as columns.
function showSmall({ dimension_at: small, dimension }) {
  const bars = small.map(([nodes, count]) =>
    html(
      "span",
      { class: "column", title: `${plural(count, "independent map")} at ${plural(nodes, "node")}` },
      html("span", { class: "value" }, count.toLocaleString("en")),
      html("span", { class: "bar", style: `height:${Math.max(2, (34 * count) / Math.max(dimension, 1)).toFixed(1)}px` }),
      html("span", { class: "name" }, `N=${nodes}`),
    ),
  );
  at("small").replaceChildren(...bars);
  at("small").hidden = small.length < 2;
}

function showOrbits({ inputs, outputs, kind }) {
  const seen = new Map();
  const sides = [...inputs.map((one, k) => [`x${kind === "products" ? k + 1 : ""}`, one]), ...outputs.map((one) => ["y", one])];
  for (const [side, tensor] of sides) {
    if (!seen.has(tensor.text)) seen.set(tensor.text, { tensor, sides: [] });
    seen.get(tensor.text).sides.push(side);
  }
  const rows = [...seen.values()].map(({ tensor, sides: names }) =>
    html(
      "div",
      { class: "tensor" },
      html("h3", {}, html("code", {}, tensor.text || "(one value)"), html("span", { class: "faint" }, `${[...new Set(names)].join(", ")} · ${plural(tensor.num_orbits, "orbit")}`)),
      html(
        "div",
        { class: "orbits" },
        ...tensor.orbits.map((orbit) =>
          html("figure", {}, drawing(orbit.svg), html("figcaption", {}, html("code", {}, orbit.text), ...orbit.facts.map((fact) => html("span", {}, fact)))),
        ),
        ...(tensor.orbits.length < tensor.num_orbits ? [html("p", { class: "faint" }, `and ${plural(tensor.num_orbits - tensor.orbits.length, "orbit")} more`)] : []),
      ),
    ),
  );
  at("orbits").replaceChildren(...rows);
}

function showCode(code) {
  const titles = { python: "PyTorch", shell: "Command line" };
  const blocks = Object.entries(code).map(([name, text]) => {
    const button = html("button", { class: "quiet", type: "button", "aria-label": `Copy: ${titles[name]}` }, "Copy");
    button.addEventListener("click", () => copy(text, button));
    return html("div", { class: "snippet" }, html("div", { class: "title" }, html("h3", {}, titles[name]), button), html("pre", { tabindex: 0 }, html("code", { id: `code-${name}` }, text)));
  });
  at("code").replaceChildren(...blocks);
}

// --- the matrix and the small structure ------------------------------------------------------------------------------------------------

async function showEntries(mine) {
  const { summary } = shown;
  const hasEntries = summary.most_nodes > 0;
  const nodes = Math.min(state.nodes ?? summary.nodes, summary.most_nodes) || summary.nodes;
  at("matrix-panel").hidden = !hasEntries || summary.kind === "products";
  at("structure-panel").hidden = !hasEntries;
  document.querySelector(".columns").classList.toggle("alone", !hasEntries);
  if (!hasEntries) return;
  const entries = await ask("entries", nodes);
  if (mine !== turn || entries.error) return;
  shown.entries = entries;
  at("nodes").textContent = plural(nodes, "node");
  at("fewer").disabled = nodes <= 1;
  at("more").disabled = nodes >= summary.most_nodes;
  if (entries.cells) matrix.show(entries, { row: (e) => `y[${orbitOf(e, "outputs")}]`, column: (e) => `x[${orbitOf(e, "inputs")}]` });
}

const orbitOf = ({ tensor, orbit }, side) => shown.summary[side][tensor].orbits[orbit]?.text ?? "…";

// An entry as it is written: `0 {0 2}`.
function nameOf({ tensor, faces }, side) {
  const { kinds } = shown.summary[side][tensor];
  const labels = shown.entries.nodes.map((node) => node.label);
  return faces.map((face, k) => kinds[k] + face.map((v) => labels[v]).join(" ") + CLOSING[kinds[k]]).join(" ");
}

// Lights up what the pointer is at, or else the chosen operation.
async function light() {
  const mine = turn;
  const what = pointed;
  if (!shown?.entries) return operations.mark(state.operation, null);
  if (what?.place) return lightPlace(what.place);
  operations.mark(state.operation, null);
  const isChosen = what !== null || (state.operation !== null && state.operation < shown.summary.listed);
  const number = what?.operation.number ?? (isChosen ? state.operation : shown.resting);
  if (number === undefined) return lightNothing();
  const isProduct = shown.summary.kind === "products";
  const terms = await ask("terms", number, ...(isProduct ? [shown.entries.num_nodes] : [])).catch(() => null);
  const page = await ask("operations", Math.floor(number / PAGE)).catch(() => null);
  if (mine !== turn || what !== pointed || !terms || !page) return;
  const operation = page[number % PAGE];
  if (!isChosen) lightNothing();
  else if (!isProduct) {
    matrix.light(terms);
    at("matrix-caption").replaceChildren(`Operation ${number} reaches the places that are lit: `, formula(operation.formula, operation.roles));
  }
  drawStructure(isProduct ? terms : placesOf(terms), operation);
}

// What is drawn while nothing is chosen: an operation that has something of everything.
function restingOf(page) {
  const has = ({ roles }, ...wanted) => wanted.every((role) => Object.values(roles).includes(role));
  return (page.find((one) => has(one, 0, 1)) ?? page.find((one) => has(one, 0)) ?? page[0])?.number;
}

function lightPlace({ row, column, weight }) {
  const lit = weight ? { [weight.number]: 1 } : {};
  matrix.light(lit);
  operations.mark(state.operation, lit);
  const { rows, columns } = shown.entries;
  const pair = [html("code", {}, `y[${nameOf(rows[row], "outputs")}]`), " reads ", html("code", {}, `x[${nameOf(columns[column], "inputs")}]`)];
  const told = weight ? [" with ", html("strong", {}, `${weight.sign < 0 ? "−" : ""}w${weight.number}`), ", as every lit place does."] : [": always 0."];
  at("matrix-caption").replaceChildren(...pair, ...told);
  const places = weight ? [[row, column, weight.sign]] : [[row, column, 0]];
  drawStructure(places, null, row);
}

function lightNothing() {
  matrix.light(null);
  const bars = shown.summary.is_oriented ? " A bar is a negative sign." : "";
  at("matrix-caption").textContent = `Outputs are rows, inputs columns.${bars} Point at a place, or at an operation.`;
}

// Where an operation is not 0: [row, column, factor], from the weights it is made of.
function placesOf(terms) {
  const { cells, columns } = shown.entries;
  return cells.flatMap((cell, k) => {
    const factor = cell && terms[Math.abs(cell) - 1];
    return factor ? [[Math.floor(k / columns.length), k % columns.length, factor * Math.sign(cell)]] : [];
  });
}

// Draws one row of an operation: the entries it reads, and the one it writes.
function drawStructure(places, operation, fixed = null) {
  const { entries, summary } = shown;
  if (!entries) return;
  const isProduct = summary.kind === "products";
  const writable = [...new Set(places.map(([row]) => row))];
  const row = fixed ?? (writable.includes(state.row) ? state.row : (writable[0] ?? null));
  const here = places.filter(([own]) => own === row);
  const strong = (k) => new Map(here.map((place) => [place[k], isProduct ? "1" : String(place[2]).replace("-", "−")]));
  const target = entries.rows[row ?? 0]?.tensor ?? 0;
  const sources = isProduct ? summary.inputs.map((_, k) => k) : [entries.columns[here[0]?.[1]]?.tensor ?? 0];
  const inputs = sources.map((tensor, k) => side("inputs", entries.columns, tensor, strong(k + 1), isProduct ? `x${k + 1}` : "x"));
  const output = side("outputs", entries.rows, target, new Map(row === null ? [] : [[row, "1"]]), "y");
  structure.show(entries.nodes, inputs, output);
  at("row").textContent = row === null ? "" : `y[${nameOf(entries.rows[row], "outputs")}]`;
  at("before").disabled = at("after").disabled = writable.length < 2;
  structure.writable = writable;
  structure.row = row;
  at("structure-caption").replaceChildren(...captionOf(operation, row, here, isProduct));
}

function side(name, all, tensor, strong, letter) {
  const { kinds, text } = shown.summary[name][tensor];
  const entries = all.map((entry, number) => ({ ...entry, number })).filter((entry) => entry.tensor === tensor);
  return { title: `${letter}[${text}]`, entries, kinds, strong };
}

function captionOf(operation, row, here, isProduct) {
  const { entries } = shown;
  if (!operation) return ["The two entries of that place."];
  if (row === null) return [`Operation ${operation.number} has no entry to write or read on ${plural(entries.num_nodes, "node")}.`];
  const name = html("code", {}, `y[${nameOf(entries.rows[row], "outputs")}]`);
  const what = isProduct ? `adds up ${plural(here.length, "product")} of entries` : `reads ${plural(here.length, "entry", "entries")}`;
  return [`By operation ${operation.number} `, name, ` ${what}: `, html("span", {}, operation.words), "."];
}

function stepRow(step) {
  const { writable, row } = structure;
  if (writable?.length) set({ row: writable[(writable.indexOf(row) + step + writable.length) % writable.length] });
}

// --- the rest of the page --------------------------------------------------------------------------------------------------------------

function showExamples() {
  const items = site.examples.map(({ title, text }) => {
    const button = html("button", { type: "button", class: "example", "data-map": text }, html("span", {}, title), html("code", {}, text));
    button.addEventListener("click", () => {
      at("map").value = text;
      go(text, { isNew: true });
    });
    return html("li", {}, button);
  });
  at("examples").replaceChildren(...items);
}

function markExample() {
  for (const button of at("examples").querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.map === state.map);
}

async function copy(text, button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  setTimeout(() => (button.textContent = said), 1500);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").setAttribute("aria-pressed", name === "dark");
  at("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function followTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // the browser keeps nothing
    }
  };
  const follow = () => setTheme(kept() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  at("theme").addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    setTheme(name);
    try {
      localStorage.setItem("theme", name);
    } catch {
      // then it lasts as long as the page
    }
  });
  follow();
}

function listen() {
  let timer = 0;
  at("map").addEventListener("input", ({ target }) => {
    const since = performance.now();
    clearTimeout(timer);
    timer = setTimeout(() => go(target.value, { since }), PAUSE);
  });
  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("overlap").addEventListener("input", ({ target }) => {
    if (!target.validity.valid || target.value === "") return;
    Object.assign(state, { overlap: Number(target.value), operation: null, row: null });
    writeAddress(false);
    show();
  });
  at("help").addEventListener("click", () => {
    at("grammar").hidden = !at("grammar").hidden;
    at("help").setAttribute("aria-expanded", !at("grammar").hidden);
  });
  at("link").addEventListener("click", () => copy(location.href, at("link")));
  at("fewer").addEventListener("click", () => set({ nodes: shown.entries.num_nodes - 1, row: null }));
  at("more").addEventListener("click", () => set({ nodes: shown.entries.num_nodes + 1, row: null }));
  at("close").addEventListener("click", () => set({ operation: null }));
  at("before").addEventListener("click", () => stepRow(-1));
  at("after").addEventListener("click", () => stepRow(1));
  window.addEventListener("popstate", arrive);
}

function arrive() {
  readAddress();
  at("map").value = state.map;
  return show();
}

async function main() {
  followTheme();
  site = await (await fetch("site.json")).json();
  at("note").hidden = true;
  showExamples();
  listen();
  if (site.python) answers.start();
  else answers.tell("absent");
  await arrive();
}

main();
