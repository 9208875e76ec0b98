// Light and dark: as the system has it, until someone chooses.

import { byId } from "./elements.js";
import { announce } from "./messages.js";
import { emit } from "./state.js";
import { phrase } from "./texts.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "allfocus-theme";

/** A private window may refuse storage; the choice then lasts as long as the page. */
function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return;
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

const present = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");

function apply() {
  byId("theme").setAttribute("aria-label", present() === "dark" ? phrase("theme.use-light") : phrase("theme.use-dark"));
  byId("theme").title = byId("theme").getAttribute("aria-label");
  emit("theme");
}

byId("theme").addEventListener("click", () => {
  const next = present() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  remember(next);
  announce(next === "dark" ? phrase("theme.dark") : phrase("theme.light"));
  apply();
});
system.addEventListener("change", apply);
if (["light", "dark"].includes(remembered())) document.documentElement.dataset.theme = remembered();
apply();
