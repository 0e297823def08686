// Two graphs and a map: the colours of all entries layer by layer, and whether networks tell the graphs apart.

import { Superseded } from "./answers.js";
import { at, html } from "./dom.js";
import { pictureOf } from "./pair.js";
import { answers } from "./state.js";
import { copy } from "./summary.js";
import { followTheme } from "./theme.js";

const PAUSE = 150; // milliseconds without a key after which the texts are looked at
const TEXTS = ["map", "one", "other"];
const state = { map: "", one: "", other: "", layer: null }; // what the address holds; without a layer the one that decides is shown
let site = { pairs: [], python: null };
let shown = null; // the answer on the page
let turn = 0; // counts what was asked for, so that late answers are not shown

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const [first] = site.pairs;
  for (const name of TEXTS) state[name] = given.get(name) ?? first[name];
  state.layer = /^\d{1,4}$/.test(given.get("layer") ?? "") ? Number(given.get("layer")) : null;
}

function writeAddress(isNew) {
  const said = new URLSearchParams(TEXTS.map((name) => [name, state[name]]));
  if (state.layer !== null) said.set("layer", state.layer);
  try {
    history[isNew ? "pushState" : "replaceState"](null, "", `#${said}`);
  } catch {
    // some browsers refuse after a hundred changes in half a minute: a later one will do
  }
}

const isSame = (example) => TEXTS.every((name) => example[name] === state[name]);

async function show() {
  const mine = ++turn;
  answers.forget();
  at("answer").classList.add("stale");
  for (const button of at("examples").querySelectorAll("button")) button.setAttribute("aria-pressed", isSame(site.pairs[button.dataset.number]));
  try {
    const example = site.pairs.find(isSame);
    if (example) answers.learn(await (await fetch(example.file)).json());
    const answer = await answers.ask("colours", state.map, 1, state.one, state.other);
    if (mine !== turn) return;
    if (answer.error) return refuse(answer.error);
    shown = answer;
    accept();
    draw();
  } catch (error) {
    if (!(error instanceof Superseded) && mine === turn) refuse(error.message);
  }
}

function refuse(message) {
  at("problem").textContent = message.replace(/^\n/, "");
  at("problem").hidden = false;
}

function accept() {
  at("problem").hidden = true;
  at("answer").hidden = false;
  at("answer").classList.remove("stale");
  at("sentence").replaceChildren(...shown.sentence.split("`").map((part, k) => (k % 2 ? html("code", {}, part) : part)));
  at("answer").classList.toggle("apart", shown.first !== null);
  document.documentElement.dataset.shown = TEXTS.map((name) => state[name]).join(" | ");
}

const last = () => shown.states.length - 1;
const layerShown = () => Math.min(state.layer ?? shown.first ?? last(), last());

// The graphs and the table after the layer that is looked at.
function draw() {
  const layer = layerShown();
  at("layer").textContent = layer ? `after layer ${layer} of ${last()}` : last() ? "at the start" : "at the start, and ever after";
  at("before").disabled = layer === 0;
  at("after").disabled = layer === last();
  const pictures = ["First graph", "Second graph"].map((title, number) => html("figure", {}, pictureOf(shown, layer, number, title), html("figcaption", {}, title)));
  at("pair").replaceChildren(...pictures);
  const rows = shown.counts[layer].map(([tensor, colour, one, other]) =>
    html(
      "tr",
      { class: one === other ? "" : "differs", "data-colour": colour },
      html("td", {}, html("span", { class: "chip", style: paint(colour) }), ` ${colour + 1}`),
      html("td", {}, html("code", {}, shown.tensors[tensor].text)),
      html("td", {}, String(one)),
      html("td", {}, String(other)),
    ),
  );
  at("counts").replaceChildren(...rows);
}

const paint = (colour) => `--light:${shown.palette[colour][0]};--dark:${shown.palette[colour][1]}`;

function step(by) {
  if (!shown) return;
  state.layer = Math.max(0, Math.min(last(), layerShown() + by));
  writeAddress(false);
  draw();
}

function showExamples() {
  const items = site.pairs.map(({ title, map, one, other }, number) => {
    const button = html("button", { type: "button", class: "example", "data-number": number }, html("span", {}, title), html("code", {}, map));
    button.addEventListener("click", () => {
      Object.assign(state, { map, one, other, layer: null });
      writeAddress(true);
      fill();
      show();
    });
    return html("li", {}, button);
  });
  at("examples").replaceChildren(...items);
}

function fill() {
  for (const name of TEXTS) at(name).value = state[name];
}

function listen() {
  let timer = 0;
  for (const name of TEXTS) {
    at(name).addEventListener("input", ({ target }) => {
      clearTimeout(timer);
      Object.assign(state, { [name]: target.value, layer: null });
      timer = setTimeout(() => {
        writeAddress(false);
        show();
      }, PAUSE);
    });
  }
  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("link").addEventListener("click", () => copy(location.href, at("link")));
  at("before").addEventListener("click", () => step(-1));
  at("after").addEventListener("click", () => step(1));
  document.addEventListener("keydown", ({ key, target }) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (by && !target.matches("input, textarea")) step(by);
  });
  window.addEventListener("popstate", arrive);
}

function arrive() {
  readAddress();
  fill();
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
