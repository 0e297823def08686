// The list of operations. There may be thousands: a part of it is filled when it comes near the window, and emptied when it is far.

import { drawing, formula, html } from "./dom.js";
import { plural } from "./summary.js";

const NEAR = "700px";
const KEPT = 200; // operations that stay on the page, wherever the window is
const PART = 12; // operations that come and go together: whole rows, be there one, two, three or four in a row

export class Operations {
  #cards = new Map(); // those that are there, by number
  #observer = null;

  // `fetchPage(k)` gives the promise of a page; `point(operation)` hears which one is pointed at, or null; `choose(operation)` which is clicked.
  constructor(box, { fetchPage, point, choose }) {
    Object.assign(this, { box, fetchPage, point, choose });
    box.addEventListener("keydown", (event) => this.#step(event));
  }

  // The first page is at hand already.
  show({ blocks, kind }, pageSize, firstPage) {
    this.#observer?.disconnect();
    this.#observer = new IntersectionObserver((seen) => seen.forEach((one) => this.#look(one)), { rootMargin: NEAR });
    this.#cards.clear();
    this.count = blocks.reduce((sum, block) => sum + block.count, 0);
    this.pageSize = pageSize;
    this.noun = kind === "products" ? "product" : "operation";
    this.box.replaceChildren(...blocks.flatMap((block) => this.#parts(block)));
    for (const part of this.box.querySelectorAll(".part")) if (part.dataset.stop <= pageSize) this.#fill(part, firstPage);
    this.#reserve();
    for (const part of this.box.querySelectorAll(".part")) this.#observer.observe(part);
  }

  // Marks the chosen operation, and those that share a weight with the place pointed at.
  mark(chosen, lit) {
    for (const [number, card] of this.#cards) this.#markCard(card, number, chosen, lit);
    this.chosen = chosen;
    this.lit = lit;
  }

  // Brings an operation into the window.
  async scrollTo(number) {
    const part = [...this.box.querySelectorAll(".part")].find((one) => number < Number(one.dataset.stop));
    if (!part) return null;
    part.isNear = true;
    await this.#load(part);
    const card = this.#cards.get(number);
    card?.scrollIntoView({ block: "center", behavior: "instant" });
    return card;
  }

  // A heading, and its operations in parts.
  #parts({ heading, start, count }) {
    const told = plural(count, this.noun);
    const elements = [html("h3", {}, html("code", {}, heading), html("span", { class: "faint" }, told))];
    for (let first = start; first < start + count; first += PART) {
      elements.push(html("div", { class: "part", "data-start": first, "data-stop": Math.min(start + count, first + PART) }));
    }
    return elements;
  }

  // Leaves as much room for the parts that are not there as those that are there take.
  #reserve() {
    const [card] = this.#cards.values();
    if (!card) return;
    const columns = getComputedStyle(card.parentElement).gridTemplateColumns.split(" ").length;
    for (const part of this.box.querySelectorAll(".part:empty")) {
      part.style.minHeight = `${Math.ceil((part.dataset.stop - part.dataset.start) / columns) * (card.offsetHeight + 10)}px`;
    }
  }

  #look({ target, isIntersecting }) {
    target.isNear = isIntersecting;
    if (isIntersecting) this.#load(target);
    else if (this.count > KEPT) this.#empty(target);
  }

  async #load(target) {
    if (target.querySelector(".operation")) return;
    const [first, last] = [target.dataset.start, target.dataset.stop - 1].map((number) => Math.floor(number / this.pageSize));
    try {
      const pages = await Promise.all([...new Set([first, last])].map((page) => this.fetchPage(page)));
      if (target.isNear && target.isConnected && !target.childElementCount) this.#fill(target, pages.flat());
    } catch (error) {
      if (target.isConnected) target.replaceChildren(html("p", { class: "faint" }, error.message));
    }
  }

  #fill(part, operations) {
    const { start, stop } = part.dataset;
    part.append(...operations.filter(({ number }) => number >= start && number < stop).map((operation) => this.#card(operation)));
    part.style.minHeight = "";
  }

  #empty(part) {
    if (!part.childElementCount || part.contains(document.activeElement)) return;
    part.style.minHeight = `${part.offsetHeight}px`;
    for (const card of part.children) this.#cards.delete(Number(card.dataset.number));
    part.replaceChildren();
  }

  #card(operation) {
    const { number, words } = operation;
    const card = html(
      "button",
      { class: "operation", type: "button", "data-number": number, "aria-label": `${number}: ${words}` },
      html("span", { class: "number" }, String(number)),
      drawing(operation.svg),
      formula(operation.formula, operation.roles),
      html("span", { class: "words" }, words),
    );
    card.addEventListener("pointerenter", () => this.point(operation));
    card.addEventListener("pointerleave", () => this.point(null));
    card.addEventListener("focus", () => this.point(operation));
    card.addEventListener("blur", () => this.point(null));
    card.addEventListener("click", () => this.choose(operation));
    this.#cards.set(number, card);
    this.#markCard(card, number, this.chosen, this.lit);
    return card;
  }

  #markCard(card, number, chosen, lit) {
    card.setAttribute("aria-pressed", number === chosen);
    card.classList.toggle("lit", Boolean(lit) && number in lit);
    card.tabIndex = number === (chosen ?? this.#first()) ? 0 : -1; // one stop for the whole list; arrows go on from there
  }

  #first() {
    return Math.min(...this.#cards.keys());
  }

  async #step(event) {
    const now = Number(document.activeElement?.dataset?.number);
    const next = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: this.count - 1 }[event.key];
    if (Number.isNaN(now) || next === undefined) return;
    event.preventDefault();
    if (next >= 0 && next < this.count) (this.#cards.get(next) ?? (await this.scrollTo(next)))?.focus();
  }
}
