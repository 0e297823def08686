// What the page knows: the map and the look at it, which the address holds, and the answer that is shown.

import { Answers } from "./answers.js";
import { at } from "./dom.js";

export const PAGE = 12; // operations in an answer, as in explorer.py

const ENGINE = {
  loading: "Loading Python …",
  ready: "",
  busy: "",
  absent: "Built without Python: the examples are all it can show.",
  failed: "Python could not be loaded.",
};

export const state = { map: "", overlap: 1, nodes: null, operation: null, row: null };

export const page = {
  operations: null, // the list of them
  choose: null, // what changes the look at a map
  shown: null, // the answer on the page: { summary, entries, resting }
  pointed: null, // what is under the pointer: { place } of the matrix, or { operation }
  turn: 0, // counts what was asked for, so that late answers are not shown
};

export const answers = new Answers((status) => {
  at("engine").textContent = ENGINE[status];
  document.documentElement.dataset.engine = status;
});

export const ask = (name, ...more) => answers.ask(name, state.map, state.overlap, ...more);

export function readAddress(defaultMap) {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d{1,9}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  const map = given.get("map") ?? defaultMap;
  Object.assign(state, { map, overlap: number("overlap") ?? 1, nodes: number("nodes"), operation: number("op"), row: number("row") });
}

export function writeAddress(isNew) {
  const said = new URLSearchParams({ map: state.map });
  if (state.overlap !== 1) said.set("overlap", state.overlap);
  if (state.nodes !== null) said.set("nodes", state.nodes);
  if (state.operation !== null) said.set("op", state.operation);
  if (state.row !== null) said.set("row", state.row);
  try {
    history[isNew ? "pushState" : "replaceState"](null, "", `#${said}`);
  } catch {
    // some browsers refuse after a hundred changes in half a minute: a later one will do
  }
}
