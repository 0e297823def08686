// A graph whose entries are drawn in their colours: nodes, edges, faces, and matrices below it.

import { svg } from "./dom.js";

const SIZE = 300;
const MARGIN = 22;
const RADIUS = 10; // of a node
const CELLS = 150; // the side of a matrix

// The picture of one of the two graphs of an answer after some layers.
export function pictureOf(answer, layer, number, title) {
  const graph = answer.graphs[number];
  const places = graph.places.map((point) => point.map((share) => MARGIN + share * (SIZE - 2 * MARGIN)));
  const drawn = (look) =>
    answer.tensors.flatMap((tensor, t) => {
      if (tensor.look !== look) return [];
      return [tensor.entries[number].map((nodes, k) => ({ nodes, colour: answer.states[layer][t][number][k] }))];
    });
  const shape = ({ colour }, name, attributes, ...children) =>
    svg(name, { ...attributes, "data-colour": colour, style: `--light:${answer.palette[colour][0]};--dark:${answer.palette[colour][1]}` }, ...children);
  const at = (node) => places[node];
  const matrices = [...drawn("cell"), ...drawn("both").map((entries) => entries.concat(entries.map((e) => ({ ...e, nodes: [...e.nodes].reverse() }))))];
  const height = SIZE + matrices.length * (CELLS + 12);
  const parts = [
    ...drawn("region").flat().map((e) => shape(e, "path", { class: "face", d: region(e.nodes.map(at)) })),
    ...graph.edges.map(([a, b]) => svg("path", { class: "edge", d: `M${at(a)}L${at(b)}` })),
    ...drawn("line").flat().map((e) => shape(e, "path", { class: "link", d: `M${at(e.nodes[0])}L${at(e.nodes[1])}` })),
    // an arrow is the half of its line that starts at its first node
    ...drawn("arrow").flat().map((e) => shape(e, "path", { class: "link", d: `M${at(e.nodes[0])}L${middle(e.nodes.map(at))}` })),
    ...places.map(([cx, cy], k) => svg("circle", { class: "dot", cx, cy, r: RADIUS }, svg("title", {}, graph.names[k]))),
    ...drawn("node").flat().map((e) => dot(e, at(e.nodes[0]), graph.names[e.nodes[0]], shape)),
    ...matrices.flatMap((entries, k) => cells(entries, places.length, SIZE + 12 + k * (CELLS + 12), shape)),
  ];
  return svg("svg", { viewBox: `0 0 ${SIZE} ${height}`, class: "coloured", role: "img", "aria-label": `${title}: the table below has its colours` }, ...parts);
}

const middle = (points) => [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);

// The corners around their middle, and a little inside.
function region(points) {
  const [cx, cy] = middle(points);
  const around = [...points].sort((a, b) => Math.atan2(a[1] - cy, a[0] - cx) - Math.atan2(b[1] - cy, b[0] - cx));
  return `M${around.map(([x, y]) => [x + (cx - x) * 0.12, y + (cy - y) * 0.12]).join("L")}Z`;
}

// The number of the colour stands in the node, so that no colour has to be told from another by eye.
function dot(entry, [cx, cy], name, shape) {
  const circle = shape(entry, "circle", { class: "node", cx, cy, r: RADIUS }, svg("title", {}, `${name}: colour ${entry.colour + 1}`));
  return svg("g", {}, circle, svg("text", { x: cx, y: cy + 3.5 }, entry.colour + 1));
}

function cells(entries, count, top, shape) {
  const side = CELLS / count;
  const left = (SIZE - CELLS) / 2;
  return entries.map((e) => {
    const [row, column] = e.nodes.length > 1 ? e.nodes : [e.nodes[0], e.nodes[0]];
    return shape(e, "rect", { class: "cell", x: left + column * side, y: top + row * side, width: side, height: side });
  });
}
