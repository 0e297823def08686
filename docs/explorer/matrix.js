// The matrix of a map: outputs are rows, inputs are columns, and a colour is a weight. All places of a weight are one path.

import { svg } from "./dom.js";

const SIDE = 10; // of a place
const GAP = 4; // between orbits
const MARGIN = 2;
const LETTER = 0.6; // how wide a letter is, of its size

export class Matrix {
  // `point(place)` hears which place is pointed at, { weight, row, column }; `null` for none.
  constructor(box, point) {
    this.box = box;
    this.point = point;
    this.place = null;
  }

  show(entries, labels) {
    this.entries = entries;
    this.rows = offsets(entries.rows);
    this.columns = offsets(entries.columns);
    this.paths = new Map();
    const [wide, high] = [this.columns, this.rows].map((all) => (all.length ? all.at(-1) + SIDE : SIDE));
    const letter = Math.max(5, Math.max(wide, high) / 34);
    const room = 1.7 * letter + MARGIN;
    const shapes = [...this.#paths(), ...this.#names(labels, letter)];
    this.cursor = svg("rect", { class: "cursor", width: SIDE, height: SIDE, visibility: "hidden" });
    this.picture = svg(
      "svg",
      {
        viewBox: `${-room} ${-room} ${wide + room + MARGIN} ${high + room + MARGIN}`,
        preserveAspectRatio: "xMinYMin",
        class: "matrix",
        tabindex: 0,
        role: "img",
        "aria-label": `The matrix of the map on ${entries.num_nodes} nodes: ${entries.rows.length} rows, ${entries.columns.length} columns, ${this.paths.size} weights. Arrow keys move from place to place.`,
      },
      ...shapes,
      this.cursor,
    );
    this.picture.style.maxWidth = `${(wide + room) * 4.6}px`; // a single place does not fill the page
    this.#listen();
    this.box.replaceChildren(this.picture);
  }

  // Lights up some weights; with none given, all are as they were.
  light(weights) {
    this.picture?.classList.toggle("lit", Boolean(weights));
    for (const [number, path] of this.paths ?? []) path.classList.toggle("on", Boolean(weights) && number in weights);
  }

  // The weight at a place: { number, sign }, or null.
  weightAt(row, column) {
    const cell = this.entries.cells[row * this.columns.length + column];
    return cell ? { number: Math.abs(cell) - 1, sign: Math.sign(cell) } : null;
  }

  // The orbits, above their columns and beside their rows, where there is room for them.
  *#names(labels, letter) {
    const lines = [
      ...spans(this.entries.columns, this.columns).map((span) => [labels.column(span.entry), span, ""]),
      ...spans(this.entries.rows, this.rows).map((span) => [labels.row(span.entry), span, "rotate(-90)"]),
    ];
    for (const [text, { start, stop }, transform] of lines) {
      const middle = (start + stop) / 2;
      if (text.length * letter * LETTER > stop - start + GAP) continue;
      yield svg("text", { x: transform ? -middle : middle, y: -0.55 * letter, "font-size": letter, transform: transform || null, class: "orbit" }, text);
    }
  }

  *#paths() {
    const outlines = new Map();
    const bars = new Map();
    const none = [];
    this.rows.forEach((y, row) =>
      this.columns.forEach((x, column) => {
        const weight = this.weightAt(row, column);
        const square = `M${x} ${y}h${SIDE}v${SIDE}h${-SIDE}z`;
        if (!weight) return none.push(square);
        append(outlines, weight.number, square);
        if (weight.sign < 0) append(bars, weight.number, `M${x + 2.5} ${y + SIDE / 2}h5`);
      }),
    );
    yield svg("path", { d: none.join(""), class: "zero" });
    for (const [number, parts] of outlines) {
      const [light, dark] = this.entries.colours[number];
      const path = svg("g", { class: "weight", "data-weight": number, style: `--light:${light};--dark:${dark}` }, svg("path", { d: parts.join("") }));
      if (bars.has(number)) path.append(svg("path", { d: bars.get(number).join(""), class: "minus" }));
      this.paths.set(number, path);
      yield path;
    }
  }

  #listen() {
    const { picture } = this;
    const pointed = (event) => {
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
      this.#go(find(this.rows, y), find(this.columns, x));
    };
    picture.addEventListener("pointermove", pointed);
    picture.addEventListener("pointerdown", pointed);
    picture.addEventListener("pointerleave", () => this.#go(-1, -1));
    picture.addEventListener("focus", () => this.place ?? this.#go(0, 0));
    picture.addEventListener("blur", () => this.#go(-1, -1));
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const { row, column } = this.place ?? { row: 0, column: 0 };
      this.#go(clamp(row + step[0], this.rows.length), clamp(column + step[1], this.columns.length));
    });
  }

  #go(row, column) {
    const isInside = row >= 0 && column >= 0;
    if (isInside && this.place?.row === row && this.place?.column === column) return;
    if (!isInside && !this.place) return;
    this.place = isInside ? { row, column, weight: this.weightAt(row, column) } : null;
    this.cursor.setAttribute("visibility", isInside ? "visible" : "hidden");
    if (isInside) {
      this.cursor.setAttribute("x", this.columns[column]);
      this.cursor.setAttribute("y", this.rows[row]);
    }
    this.point(this.place);
  }
}

const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));

function append(table, key, value) {
  if (!table.has(key)) table.set(key, []);
  table.get(key).push(value);
}

const isSameOrbit = (one, other) => one.tensor === other.tensor && one.orbit === other.orbit;

// From where to where every orbit reaches.
function spans(entries, starts) {
  const found = [];
  entries.forEach((entry, k) => {
    if (!k || !isSameOrbit(entries[k - 1], entry)) found.push({ entry, start: starts[k] });
    found.at(-1).stop = starts[k] + SIDE;
  });
  return found;
}

// Where every row or column begins; there is a gap where another orbit begins.
function offsets(entries) {
  let place = 0;
  return entries.map((entry, k) => {
    const before = entries[k - 1];
    if (before) place += SIDE + (isSameOrbit(before, entry) ? 0 : GAP);
    return place;
  });
}

// The row or column at a place; -1 in a gap or outside.
const find = (starts, place) => starts.findIndex((start) => place >= start && place < start + SIDE);
