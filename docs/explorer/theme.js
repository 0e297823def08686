// Light or dark: as the system says, until somebody says otherwise on this page.

import { at } from "./dom.js";

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").setAttribute("aria-pressed", name === "dark");
  at("theme").textContent = name === "dark" ? "Light" : "Dark";
}

export function followTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // the browser keeps nothing
    }
  };
  const follow = () => setTheme(kept() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  at("theme").addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    setTheme(name);
    try {
      localStorage.setItem("theme", name);
    } catch {
      // then it lasts as long as the page
    }
  });
  follow();
}
