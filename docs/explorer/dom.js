// Elements of HTML and SVG in one line each.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const html = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);
export const at = (id) => document.getElementById(id);

// A drawing that the library made. What is in it was escaped there.
export function drawing(text) {
  const box = html("span", { class: "drawing" });
  box.innerHTML = text;
  const picture = box.firstElementChild;
  picture.setAttribute("aria-hidden", "true"); // the words beside it say the same
  picture.querySelector("title")?.remove();
  return box;
}

// A formula of the library with its sums as they are written by hand, and every node in the colour it has in the picture.
export function formula(text, roles = {}) {
  const box = html("code", { class: "formula" });
  for (const part of text.split(/(sum_\S+|sum(?= )|[xy]\d*(?=\[)|[A-Za-z]\d*)/)) {
    if (part.startsWith("sum")) {
      const nodes = part.slice(4).split(",").filter(Boolean);
      const below = nodes.flatMap((name, k) => (k ? [",", node(name, roles)] : [node(name, roles)]));
      box.append(html("span", { class: "sum" }, "Σ", html("sub", {}, ...below)));
    } else box.append(part in roles ? node(part, roles) : part);
  }
  for (const piece of box.childNodes) if (piece.nodeType === Node.TEXT_NODE) piece.data = unbroken(piece.data);
  return box;
}

// Lines break before a tensor, not inside of its brackets.
const unbroken = (text) => text.replace(/ (?![=x])/g, "\u00a0");

const node = (name, roles) => (name in roles ? html("span", { class: `c${roles[name]}` }, name) : name);
