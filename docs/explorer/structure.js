// A small structure with all its entries: what an operation reads is drawn strong at the left, and where it writes at the right.

import { html, svg } from "./dom.js";

const SIZE = 150;
const RADIUS = 11; // of a node
const CIRCLE = 52; // on which the nodes lie

export class Structure {
  // `choose(row)` hears which output entry was clicked.
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.writable = []; // the output entries that the operation drawn here writes, and the one that is shown
    this.row = null;
  }

  // `inputs` and `output` say what to draw: { title, entries: [{ number, faces }], kinds, strong: Map of number -> label, isFaint(number) }.
  show(nodes, inputs, output) {
    this.places = placed(nodes);
    const drawn = inputs.flatMap((one, k) => [...(k ? [mark("×")] : []), this.#side(nodes, one, "reads")]);
    this.box.replaceChildren(...drawn, mark("→"), this.#side(nodes, output, "writes"));
  }

  #side(nodes, { title, entries, kinds, strong }, part) {
    const picture = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "graph", role: "img", "aria-label": `${part} ${title}` });
    const isNodes = kinds.length === 1 && entries.every((e) => e.faces[0].length === 1);
    const plain = entries.filter((e) => !strong.has(e.number));
    const chosen = entries.filter((e) => strong.has(e.number));
    if (!isNodes) for (const e of [...plain, ...chosen]) picture.append(this.#glyph(e, kinds, strong.get(e.number), part));
    nodes.forEach((node, k) => {
      const entry = isNodes ? entries.find((e) => e.faces[0][0] === k) : null;
      picture.append(this.#node(node, k, entry, entry && strong.get(entry.number), part));
    });
    return html("figure", {}, picture, html("figcaption", {}, html("code", {}, title)));
  }

  #node({ label }, k, entry, told, part) {
    const [x, y] = this.places[k];
    const state = entry ? (told === undefined ? "entry" : `entry strong ${part}`) : "";
    const shape = svg("g", { class: `node ${state}` }, svg("circle", { cx: x, cy: y, r: RADIUS }), svg("text", { x, y: y + 3.6 }, label));
    if (told && told !== "1") shape.append(svg("text", { x: x + RADIUS, y: y - RADIUS + 2, class: "factor" }, told));
    return entry ? this.#live(shape, entry, part) : shape;
  }

  #glyph(entry, kinds, told, part) {
    const state = told === undefined ? "" : `strong ${part}`;
    const shape = svg("g", { class: `entry ${state}` }, ...outline(entry.faces, kinds, this.places));
    if (told && told !== "1") {
      const [x, y] = middle(entry.faces.flat().map((k) => this.places[k]));
      shape.append(svg("text", { x, y: y + 3, class: "factor" }, told));
    }
    return this.#live(shape, entry, part);
  }

  #live(shape, entry, part) {
    shape.dataset.entry = entry.number;
    if (part === "writes") shape.addEventListener("click", () => this.choose(entry.number));
    return shape;
  }
}

const mark = (text) => html("span", { class: "mark", "aria-hidden": "true" }, text);

// Nodes of one sort lie on a circle, those of several in columns.
function placed(nodes) {
  const sorts = [...new Set(nodes.map((node) => node.sort))];
  const count = nodes.length / Math.max(sorts.length, 1);
  return nodes.map((node, k) => {
    if (sorts.length > 1) {
      const column = sorts.indexOf(node.sort);
      const share = (n, all) => (all > 1 ? n / (all - 1) : 0.5);
      return [24 + share(column, sorts.length) * (SIZE - 48), 20 + share(k - column * count, count) * (SIZE - 40)];
    }
    const turn = count === 2 ? Math.PI : -Math.PI / 2 - (count % 2 ? 0 : Math.PI / count);
    const angle = turn + (2 * Math.PI * k) / count;
    const reach = count > 1 ? CIRCLE : 0;
    return [SIZE / 2 + reach * Math.cos(angle), SIZE / 2 + reach * Math.sin(angle)];
  });
}

const middle = (points) => [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / Math.max(points.length, 1) || SIZE / 2);

// How an entry looks: a square for one value, a line or arrow for two nodes, a region for more, a line through faces for several.
function outline(faces, kinds, places) {
  if (!faces.length) return [svg("rect", { x: SIZE / 2 - 8, y: SIZE / 2 - 8, width: 16, height: 16, class: "value" })];
  if (kinds.length === 1) return outlineOfFace(faces[0].map((k) => places[k]), kinds[0]);
  const points = faces.map((face) => middle(face.map((k) => places[k])));
  return lineThrough(points, kinds.every((kind) => kind === "") || kinds.some((kind) => kind === "("));
}

function outlineOfFace(points, kind) {
  if (points.length <= 2) return lineThrough(points, kind === "(" || kind === "<", kind === "(" ? 0.13 : 0);
  if (kind === "(") return lineThrough(points, true);
  const [cx, cy] = middle(points);
  const around = [...points].sort((a, b) => Math.atan2(a[1] - cy, a[0] - cx) - Math.atan2(b[1] - cy, b[0] - cx));
  const corners = around.map(([x, y]) => `${x + (cx - x) * 0.3} ${y + (cy - y) * 0.3}`);
  return [svg("path", { d: `M${corners.join("L")}Z`, class: "region" })];
}

// A line through points, bent so that the one back does not lie on it; a loop where it stays at one point.
function lineThrough(points, hasHead, bend = 0.13) {
  const distinct = points.filter((p, k) => !k || far(p, points[k - 1]));
  if (distinct.length === 1) return [loop(distinct[0])];
  const shapes = [];
  for (let k = 1; k < distinct.length; k++) {
    const [a, b] = [distinct[k - 1], distinct[k]];
    const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
    const length = Math.hypot(dx, dy);
    const trim = length > 3.2 * RADIUS ? RADIUS + 1.5 : length * 0.12;
    const handle = [(a[0] + b[0]) / 2 - dy * bend * 2, (a[1] + b[1]) / 2 + dx * bend * 2];
    const [start, stop] = [towards(a, handle, trim), towards(b, handle, trim)];
    shapes.push(svg("path", { d: `M${start}Q${handle} ${stop}`, class: "line" }));
    if (hasHead && k === distinct.length - 1) shapes.push(head(handle, stop));
  }
  return shapes;
}

const far = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1]) > 0.5;

function towards(from, to, distance) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  return [0, 1].map((axis) => from[axis] + ((to[axis] - from[axis]) / length) * distance);
}

function head(from, tip) {
  const length = Math.hypot(tip[0] - from[0], tip[1] - from[1]) || 1;
  const [x, y] = [0, 1].map((axis) => ((tip[axis] - from[axis]) / length) * 6.5);
  return svg("path", { d: `M${tip}L${tip[0] - x - 0.45 * y} ${tip[1] - y + 0.45 * x}L${tip[0] - x + 0.45 * y} ${tip[1] - y - 0.45 * x}Z`, class: "head" });
}

// Away from the middle of the drawing.
function loop([x, y]) {
  const turn = Math.atan2(y - SIZE / 2, x - SIZE / 2);
  const place = (distance, angle) => [x + distance * Math.cos(turn + angle), y + distance * Math.sin(turn + angle)];
  return svg("path", { d: `M${place(RADIUS, 0.6)}C${place(30, 0.75)} ${place(30, -0.75)} ${place(RADIUS, -0.6)}`, class: "line" });
}
