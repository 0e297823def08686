// What is said of a map as a whole: how many operations it has, also at few nodes; its orbits; the code to copy.

import { at, drawing, html } from "./dom.js";

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export function showSummary(summary, overlap) {
  const isProduct = summary.kind === "products";
  const number = (count, one, many) => [html("strong", {}, count.toLocaleString("en")), ` ${plural(count, one, many).split(" ").slice(1).join(" ")}`];
  const biases = isProduct ? [] : [" ", html("span", { class: "and" }, "and "), ...number(summary.num_biases, "bias", "biases")];
  at("count").replaceChildren(...number(summary.dimension, isProduct ? "product" : "operation"), ...biases);
  at("sentence").textContent = sentence(summary, overlap);
  at("operations-title").textContent = isProduct ? "Products" : "Operations";
  at("overlap-option").hidden = !summary.is_open;
  at("overlap").value = overlap;
  showSmall(summary);
  showOrbits(summary);
  showCode(summary.code);
  const left = summary.dimension - summary.listed;
  at("unlisted").hidden = left <= 0;
  at("unlisted").textContent = `${left.toLocaleString("en")} more are not listed here; incidence explain --all lists up to a million.`;
}

function sentence({ is_open: isOpen, is_oriented: isOriented, enough_nodes: enough }, overlap) {
  const bounds = Object.entries(enough ?? {}).filter(([, count]) => count > 1);
  const many = bounds.map(([sort, count]) => `${count} nodes${sort === "node" ? "" : ` of sort ${sort}`}`).join(" and ");
  const open = isOpen ? `With at most ${plural(overlap, "node")} matched in faces of any size. ` : "";
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

// Puts a text on the clipboard, and says so on the button for a moment.
export async function copy(text, button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  setTimeout(() => (button.textContent = said), 1500);
}
