// The page: from what is typed or clicked to an answer.

import { Superseded } from "./answers.js";
import { at, html } from "./dom.js";
import { light, point, restingOf, rowAt, showEntries } from "./lights.js";
import { Operations } from "./operations.js";
import { PAGE, answers, ask, page, readAddress, state, writeAddress } from "./state.js";
import { copy, showSummary } from "./summary.js";
import { followTheme } from "./theme.js";

const PAUSE = 30; // milliseconds without a key after which the map is looked at
let site = { examples: [], python: null };

page.choose = set;
page.operations = new Operations(at("operations"), {
  fetchPage: (number) => ask("operations", number),
  point: (operation) => point(operation && { operation }),
  choose: ({ number }) => set({ operation: state.operation === number ? null : number }),
});

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
  try {
    if ("nodes" in change) await showEntries();
    await light();
  } catch (error) {
    if (!(error instanceof Superseded)) at("matrix-caption").textContent = error.message;
  }
}

// On a phone what an operation reads lies over the page while one is chosen.
function markChosen() {
  document.body.classList.toggle("has-chosen", state.operation !== null);
}

async function show(since = performance.now()) {
  const mine = ++page.turn;
  page.pointed = null;
  answers.forget();
  at("answer").classList.add("stale");
  markChosen();
  markExample();
  try {
    await prepare(state.map);
    const [summary, first] = await Promise.all([ask("summary"), ask("operations", 0)]);
    if (mine !== page.turn) return;
    const problem = summary.error ?? first.error;
    if (problem) return refuse(problem);
    page.shown = { summary, entries: null, resting: restingOf(first) };
    accept();
    showSummary(summary, state.overlap);
    page.operations.show(summary, PAGE, first);
    finished(since);
    await showEntries();
    if (mine !== page.turn) return;
    await light();
    if (state.operation !== null) await page.operations.scrollTo(state.operation);
  } catch (error) {
    if (!(error instanceof Superseded) && mine === page.turn) refuse(error.message);
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
  at("fewer").addEventListener("click", () => set({ nodes: page.shown.entries.num_nodes - 1, row: null }));
  at("more").addEventListener("click", () => set({ nodes: page.shown.entries.num_nodes + 1, row: null }));
  at("close").addEventListener("click", () => set({ operation: null }));
  at("before").addEventListener("click", () => set({ row: rowAt(-1) }));
  at("after").addEventListener("click", () => set({ row: rowAt(1) }));
  window.addEventListener("popstate", arrive);
}

function arrive() {
  readAddress(site.examples[0].text);
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
