// The matrix and the small structure: what lights up there for the place or the operation that is pointed at, or chosen.

import { at, formula, html } from "./dom.js";
import { Matrix } from "./matrix.js";
import { PAGE, ask, page, state } from "./state.js";
import { Structure } from "./structure.js";
import { plural } from "./summary.js";

const CLOSING = { "": "", "(": ")", "{": "}", "[": "]", "<": ">" };

const matrix = new Matrix(at("matrix"), (place) => point(place && { place }));
const structure = new Structure(at("structure"), (row) => page.choose({ row }));

export function point(what) {
  page.pointed = what;
  if (page.shown) light();
}

export async function showEntries() {
  const mine = page.turn;
  const { summary } = page.shown;
  const hasEntries = summary.most_nodes > 0;
  const nodes = Math.min(state.nodes ?? summary.nodes, summary.most_nodes) || summary.nodes;
  const isProduct = summary.kind === "products";
  at("matrix-panel").hidden = !hasEntries || isProduct;
  at(isProduct ? "structure-title" : "matrix-title").after(at("stepper")); // how many nodes is asked where something is drawn on them
  at("structure-panel").hidden = !hasEntries;
  document.querySelector(".columns").classList.toggle("alone", !hasEntries);
  if (!hasEntries) return;
  const entries = await ask("entries", nodes);
  if (mine !== page.turn || entries.error) return;
  page.shown.entries = entries;
  at("nodes").textContent = plural(nodes, "node");
  at("fewer").disabled = nodes <= 1;
  at("more").disabled = nodes >= summary.most_nodes;
  if (entries.cells) matrix.show(entries, { row: (e) => `y[${orbitOf(e, "outputs")}]`, column: (e) => `x[${orbitOf(e, "inputs")}]` });
}

const orbitOf = ({ tensor, orbit }, side) => page.shown.summary[side][tensor].orbits[orbit]?.text ?? "…";

// An entry as it is written: `0 {0 2}`.
function nameOf({ tensor, faces }, side) {
  const { kinds } = page.shown.summary[side][tensor];
  const labels = page.shown.entries.nodes.map((node) => node.label);
  return faces.map((face, k) => kinds[k] + face.map((v) => labels[v]).join(" ") + CLOSING[kinds[k]]).join(" ");
}

// Lights up what the pointer is at, or else the chosen operation.
export async function light() {
  const mine = page.turn;
  const what = page.pointed;
  if (!page.shown?.entries) return page.operations.mark(state.operation, null);
  if (what?.place) return lightPlace(what.place);
  page.operations.mark(state.operation, null);
  const isChosen = what !== null || (state.operation !== null && state.operation < page.shown.summary.listed);
  const number = what?.operation.number ?? (isChosen ? state.operation : page.shown.resting);
  if (number === undefined) return lightNothing();
  const isProduct = page.shown.summary.kind === "products";
  const terms = await ask("terms", number, ...(isProduct ? [page.shown.entries.num_nodes] : [])).catch(() => null);
  const listed = await ask("operations", Math.floor(number / PAGE)).catch(() => null);
  if (mine !== page.turn || what !== page.pointed || !terms || !listed) return;
  const operation = listed[number % PAGE];
  if (!isChosen) lightNothing();
  else if (!isProduct) {
    matrix.light(terms);
    at("matrix-caption").replaceChildren(`Operation ${number} reaches the places that are lit: `, formula(operation.formula, operation.roles));
  }
  drawStructure(isProduct ? terms : placesOf(terms), operation);
}

// What is drawn while nothing is chosen: an operation that has something of everything.
export function restingOf(operations) {
  const has = ({ roles }, ...wanted) => wanted.every((role) => Object.values(roles).includes(role));
  return (operations.find((one) => has(one, 0, 1)) ?? operations.find((one) => has(one, 0)) ?? operations[0])?.number;
}

function lightPlace({ row, column, weight }) {
  const lit = weight ? { [weight.number]: 1 } : {};
  matrix.light(lit);
  page.operations.mark(state.operation, lit);
  const { rows, columns } = page.shown.entries;
  const pair = [html("code", {}, `y[${nameOf(rows[row], "outputs")}]`), " reads ", html("code", {}, `x[${nameOf(columns[column], "inputs")}]`)];
  const told = weight ? [" with ", html("strong", {}, `${weight.sign < 0 ? "−" : ""}w${weight.number}`), ", as every lit place does."] : [": always 0."];
  at("matrix-caption").replaceChildren(...pair, ...told);
  const places = weight ? [[row, column, weight.sign]] : [[row, column, 0]];
  drawStructure(places, null, row);
}

function lightNothing() {
  matrix.light(null);
  const bars = page.shown.summary.is_oriented ? " A bar is a negative sign." : "";
  at("matrix-caption").textContent = `Outputs are rows, inputs columns.${bars} Point at a place, or at an operation.`;
}

// Where an operation is not 0: [row, column, factor], from the weights it is made of.
function placesOf(terms) {
  const { cells, columns } = page.shown.entries;
  return cells.flatMap((cell, k) => {
    const factor = cell && terms[Math.abs(cell) - 1];
    return factor ? [[Math.floor(k / columns.length), k % columns.length, factor * Math.sign(cell)]] : [];
  });
}

// Draws one row of an operation: the entries it reads, and the one it writes.
function drawStructure(places, operation, fixed = null) {
  const { entries, summary } = page.shown;
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
  const { kinds, text } = page.shown.summary[name][tensor];
  const entries = all.map((entry, number) => ({ ...entry, number })).filter((entry) => entry.tensor === tensor);
  return { title: `${letter}[${text}]`, entries, kinds, strong };
}

function captionOf(operation, row, here, isProduct) {
  const { entries } = page.shown;
  const title = `${isProduct ? "product" : "operation"} ${operation?.number}`;
  if (!operation) return ["The two entries of that place."];
  if (row === null) return [`By ${title} nothing is read or written on ${plural(entries.num_nodes, "node")}.`];
  const name = html("code", {}, `y[${nameOf(entries.rows[row], "outputs")}]`);
  const what = isProduct ? `adds up ${plural(here.length, "product")} of entries` : `reads ${plural(here.length, "entry", "entries")}`;
  return [`By ${title} `, name, ` ${what}: `, html("span", {}, operation.words), "."];
}

// The entry before or after, of those that the operation writes.
export function rowAt(step) {
  const { writable, row } = structure;
  return writable.length ? writable[(writable.indexOf(row) + step + writable.length) % writable.length] : null;
}
