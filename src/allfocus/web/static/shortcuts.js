// Keys that work anywhere on the page, and the sheet that lists them.

import { VIEWS, isPossible, peek } from "./compare.js";
import { byId, element } from "./elements.js";
import { dismissFault, leaveFault, mendFault, nextFault, previousFault } from "./faults.js";
import { pickSharpest, resizeBrush, stepSource, toggleBrush, toggleEraser, toggleStaying } from "./retouch.js";
import { phase, setBrush, setView, state } from "./state.js";
import { redo, undo } from "./strokes.js";
import { fitPicture, zoomBy, zoomTo } from "./viewer.js";

const ACTIONS = {
  b: () => toggleBrush(),
  "[": () => resizeBrush(1 / 1.15),
  "]": () => resizeBrush(1.15),
  "{": () => setBrush({ hardness: state.brush.hardness - 0.1 }),
  "}": () => setBrush({ hardness: state.brush.hardness + 0.1 }),
  ",": () => stepSource(-1),
  ".": () => stepSource(1),
  s: () => pickSharpest(),
  e: () => toggleEraser(),
  a: () => toggleStaying(),
  n: () => nextFault(),
  p: () => previousFault(),
  r: () => mendFault(),
  i: () => dismissFault(),
  Escape: () => leaveFault(),
  0: () => fitPicture(),
  1: () => zoomTo(1),
  2: () => zoomTo(2),
  "+": () => zoomBy(1.25),
  "=": () => zoomBy(1.25),
  "-": () => zoomBy(1 / 1.25),
};

const SHEET = [
  ["Views", VIEWS.map(([, title, key]) => [key, title]).concat([["H", "hold: the frame instead of the result"]])],
  [
    "Picture",
    [
      ["Wheel", "zoom to the cursor"],
      ["Drag", "move; with the brush on, hold Space"],
      ["0", "whole picture"],
      ["1  2", "100 %, 200 %"],
      ["+  -", "zoom"],
      ["Arrows", "move"],
    ],
  ],
  [
    "Brush",
    [
      ["B", "on, off"],
      ["[  ]", "smaller, larger; or Shift and wheel"],
      ["{  }", "softer, harder"],
      [",  .", "previous, next source"],
      ["E", "take strokes off, paint"],
      ["A", "stay inside one thing, or not"],
      ["S", "sharpest frame under the cursor; or Alt and click"],
      ["Arrows, Enter", "move the brush, paint a dab"],
      ["Ctrl+Z", "undo"],
      ["Ctrl+Shift+Z", "redo"],
    ],
  ],
  [
    "Check",
    [
      ["N", "next place that is worth a look"],
      ["P", "the place before"],
      ["R", "paint the frame in there"],
      ["I", "dismiss it, or take that back"],
      ["Esc", "enough of it"],
    ],
  ],
  [
    "Frames",
    [
      ["Arrows", "next, previous frame"],
      ["Alt+Arrows", "move the frame"],
      ["X", "leave it out, take it in"],
      ["Delete", "remove it"],
    ],
  ],
];

/** Whether a key belongs to the field that has the focus: all of a text field, letters and digits of a list. */
function isTyping({ target, key, ctrlKey, metaKey }) {
  const field = target.closest?.("input, select, textarea, [contenteditable]");
  if (!field || ["checkbox", "radio", "range"].includes(field.type)) return false;
  return field.tagName !== "SELECT" || !(ctrlKey || metaKey || "[]{}+-=,.?".includes(key));
}

function onKeyDown(event) {
  if (document.querySelector("dialog[open]") || isTyping(event)) return;
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (phase() !== "done") return;
    if (key === "z" && !event.shiftKey) undo();
    else if ((key === "z" && event.shiftKey) || key === "y") redo();
    else return;
    event.preventDefault();
    return;
  }
  if (event.altKey) return;
  if (event.key === "?") {
    openSheet();
    return;
  }
  if (phase() !== "done") return;
  if (key === "h") peek(true);
  const chosen = VIEWS.find(([, , letter]) => letter.toLowerCase() === key);
  if (chosen && isPossible(chosen[0])) setView(chosen[0]);
  ACTIONS[event.key.length === 1 ? key : event.key]?.();
}

export function openSheet() {
  const sheet = byId("shortcut-list");
  if (!sheet.firstChild) {
    sheet.append(
      ...SHEET.map(([title, rows]) =>
        element(
          "section",
          {},
          element("h3", {}, title),
          element("dl", {}, rows.flatMap(([keys, meaning]) => [
            element("dt", {}, keys.split("  ").map((key) => element("kbd", {}, key))),
            element("dd", {}, meaning),
          ])),
        ),
      ),
    );
  }
  byId("shortcuts").showModal();
}

document.addEventListener("keydown", onKeyDown);
document.addEventListener("keyup", (event) => event.key.toLowerCase() === "h" && phase() === "done" && peek(false));
addEventListener("blur", () => phase() === "done" && peek(false)); // the key may be let go in another window
byId("help").addEventListener("click", openSheet);
