// A short tour of the controls that are on the screen: by itself at the first start, and from the help whenever asked for.

import { byId, element } from "./elements.js";
import { phase } from "./state.js";
import { phrase } from "./texts.js";

const KEY = "allfocus-tour";
const MARGIN = 6; // pixels between a control and the ring around it
const GAP = 12; // pixels between that and what is said about it

/** For each screen the controls that are shown: where they are, and the key of their texts. */
const STEPS = {
  welcome: [[".drop", "drop"], ["#sample", "sample"], ["#library-link", "library"], ["#help", "help"]],
  prepare: [["#frame-list", "frames"], [".presets", "preset"], ["#start", "start"], ["#help", "help"]],
  running: [["#progress-bar", "progress"], ["#cancel", "cancel"], ["#library-link", "library"], ["#help", "help"]],
  done: [["#results", "results"], ["#views", "views"], ["#tab-check", "check"], ["#tab-retouch", "retouch"], ["#tab-save", "save"], ["#help", "help"]],
};

const dialog = byId("tour");
const ring = element("div.tour-ring", { "aria-hidden": "true" });
const card = element("div.tour-card");
let steps = [];
let at = 0;

const isShown = (node) => Boolean(node?.checkVisibility() && node.getBoundingClientRect().width);

/** Shows the controls of the present screen one after the other. */
export function startTour() {
  steps = STEPS[phase()].filter(([selector]) => isShown(document.querySelector(selector)));
  at = 0;
  if (!dialog.open) dialog.showModal();
  draw();
}

/** Shows the tour to somebody who is here for the first time; where nothing can be remembered, it is not shown. */
export function startFirstTour() {
  try {
    if (localStorage.getItem(KEY) || phase() !== "welcome" || document.querySelector("dialog[open]")) return;
    localStorage.setItem(KEY, "seen");
  } catch {
    return;
  }
  startTour();
}

function go(step) {
  if (at + step >= steps.length) dialog.close();
  else if (at + step >= 0) at += step;
  if (dialog.open) draw();
}

function draw() {
  const [selector, name] = steps[at];
  const isLast = at === steps.length - 1;
  card.replaceChildren(
    element("h2", { id: "tour-title" }, phrase(`tour.step.${name}`)),
    element("p", { id: "tour-text" }, phrase(`tour.text.${name}`)),
    element(
      "div.row",
      {},
      element("small", {}, phrase("progress.count", { done: at + 1, count: steps.length })),
      !isLast && element("button.plain", { id: "tour-skip", onclick: () => dialog.close() }, phrase("tour.skip")),
      at > 0 && element("button", { id: "tour-back", onclick: () => go(-1) }, phrase("tour.back")),
      element("button.primary", { id: "tour-next", onclick: () => go(1) }, isLast ? phrase("tour.done") : phrase("tour.next")),
    ),
  );
  document.querySelector(selector).scrollIntoView({ block: "nearest" });
  place();
  byId("tour-next").focus();
}

/** Puts the ring around the control, and what is said below it, above it, or where there is room. */
function place() {
  if (!dialog.open) return;
  const target = document.querySelector(steps[at][0]).getBoundingClientRect();
  const [left, top] = [Math.max(0, target.left - MARGIN), Math.max(0, target.top - MARGIN)];
  const [right, bottom] = [Math.min(innerWidth, target.right + MARGIN), Math.min(innerHeight, target.bottom + MARGIN)];
  Object.assign(ring.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  const { offsetWidth: width, offsetHeight: height } = card;
  const below = bottom + GAP + height <= innerHeight ? bottom + GAP : top - GAP - height;
  card.style.top = `${below >= GAP ? below : innerHeight - height - GAP}px`;
  card.style.left = `${Math.min(innerWidth - width - GAP, Math.max(GAP, (left + right - width) / 2))}px`;
}

dialog.append(ring, card);
dialog.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) go(step);
});
addEventListener("resize", place);
