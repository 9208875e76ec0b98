// Keys that work anywhere on the page, and the sheet that lists them.

import { VIEWS, isPossible, peek } from "./compare.js";
import { byId, element } from "./elements.js";
import { openExport } from "./export.js";
import { dismissFault, leaveFault, mendFault, nextFault, previousFault } from "./faults.js";
import { redoFinish, undoFinish } from "./finish.js";
import { pickSharpest, resizeBrush, stepSource, toggleBrush, toggleEraser, toggleStaying } from "./retouch.js";
import { phase, setBrush, setView, state } from "./state.js";
import { redo, undo } from "./strokes.js";
import { phrase } from "./texts.js";
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
  [phrase("shortcuts.views"), VIEWS.map(([, title, key]) => [key, title]).concat([["H", phrase("shortcuts.hold")]])],
  [
    phrase("page.picture"),
    [
      [phrase("shortcuts.key-wheel"), phrase("shortcuts.wheel")],
      [phrase("shortcuts.key-drag"), phrase("shortcuts.drag")],
      ["0", phrase("shortcuts.whole")],
      ["1  2", "100 %, 200 %"],
      ["+  -", phrase("shortcuts.zoom")],
      [phrase("shortcuts.key-arrows"), phrase("shortcuts.move")],
      [phrase("shortcuts.key-export"), phrase("shortcuts.export")],
    ],
  ],
  [
    phrase("retouch.brush"),
    [
      ["B", phrase("shortcuts.on-off")],
      ["[  ]", phrase("shortcuts.size")],
      ["{  }", phrase("shortcuts.hardness")],
      [",  .", phrase("shortcuts.source")],
      ["E", phrase("shortcuts.erase")],
      ["A", phrase("shortcuts.stay")],
      ["S", phrase("shortcuts.sharpest")],
      [phrase("shortcuts.key-arrows-enter"), phrase("shortcuts.dab")],
      [phrase("shortcuts.key-undo"), phrase("shortcuts.undo")],
      [phrase("shortcuts.key-redo"), phrase("shortcuts.redo")],
    ],
  ],
  [
    phrase("page.check"),
    [
      ["N", phrase("shortcuts.next")],
      ["P", phrase("shortcuts.previous")],
      ["R", phrase("shortcuts.paint")],
      ["I", phrase("shortcuts.dismiss")],
      [phrase("shortcuts.key-escape"), phrase("shortcuts.leave")],
    ],
  ],
  [
    phrase("page.frames"),
    [
      [phrase("shortcuts.key-arrows"), phrase("shortcuts.frames")],
      [phrase("shortcuts.key-alt-arrows"), phrase("shortcuts.move-frame")],
      ["X", phrase("shortcuts.include")],
      [phrase("shortcuts.key-delete"), phrase("shortcuts.remove")],
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
    const isFinishing = document.body.dataset.tool === "finish";
    if (key === "z" && !event.shiftKey) (isFinishing ? undoFinish : undo)();
    else if ((key === "z" && event.shiftKey) || key === "y") (isFinishing ? redoFinish : redo)();
    else if (key === "s" && !event.shiftKey) openExport();
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
