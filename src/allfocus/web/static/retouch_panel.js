// The panel of the retouch brush: source, size, hardness, undo and redo.

import { inGroups } from "./compare.js";
import { byId, element, icon, plural } from "./elements.js";
import { pickSharpest, stepSource, toggleBrush, toggleEraser, toggleStaying } from "./retouch.js";
import { on, phase, setBrush, setOther, setView, sourceLayers, sourceOf, state } from "./state.js";
import { isSending, redo, undo } from "./strokes.js";
import { phrase } from "./texts.js";
import { canvas } from "./viewer.js";

const SIZE_STEPS = 100; // the slider is logarithmic: 2 to 1000 pixels
const sizeToSlider = (size) => Math.round((Math.log(size / 2) / Math.log(500)) * SIZE_STEPS);
const sliderToSize = (value) => 2 * 500 ** (value / SIZE_STEPS);

const MODES = [
  ["replace", phrase("retouch.everything")],
  ["lighten", phrase("retouch.lighter")],
  ["darken", phrase("retouch.darker")],
];

const PEN_USES = [
  ["none", phrase("retouch.pen-none")],
  ["size", phrase("retouch.pen-size")],
  ["opacity", phrase("retouch.pen-opacity")],
  ["both", phrase("retouch.pen-both")],
];

const setTo = (name) => (event) => setBrush({ [name]: Number(event.target.value) / 100 });
const choices = (pairs) => pairs.map(([value, title]) => element("option", { value }, title));

function toggle(id, title, hint, onchange) {
  return element(
    "label.switch",
    {},
    element("input", { type: "checkbox", role: "switch", id, onchange }),
    element("span", {}, element("strong", {}, title), element("small", {}, hint)),
  );
}

function range(id, label, attributes, shown) {
  return element(
    "div.field.range",
    {},
    element("label", { for: id }, label, element("output", { id: `${id}-value`, for: id }, shown)),
    element("input", { type: "range", id, ...attributes }),
  );
}

function build() {
  byId("quick").replaceChildren(
    element("button.plain.toggle", { id: "quick-brush", "aria-label": phrase("retouch.retouch-brush"), onclick: () => toggleBrush() }, icon("brush")),
    element("button.plain", { id: "quick-undo", "aria-label": phrase("retouch.undo"), onclick: undo }, icon("undo")),
  );
  byId("retouch").replaceChildren(
    element("button.wide.toggle", { id: "brush", onclick: () => toggleBrush() }, icon("brush"), element("span", {}, phrase("retouch.retouch-brush")), element("kbd", {}, "B")),
    element(
      "div.field",
      {},
      element("label", { for: "source" }, phrase("retouch.from")),
      element(
        "div.row",
        {},
        element("button.plain", { "aria-label": phrase("retouch.previous"), title: phrase("retouch.previous-key"), onclick: () => stepSource(-1) }, icon("earlier")),
        element("select", { id: "source", onchange: (event) => setOther(event.target.value) }),
        element("button.plain", { "aria-label": phrase("retouch.next"), title: phrase("retouch.next-key"), onclick: () => stepSource(1) }, icon("later")),
      ),
      element("button.small.wide", { id: "pick-sharpest", onclick: pickSharpest }, icon("target"), element("span", { id: "pick-sharpest-label" }, phrase("retouch.sharpest")), element("kbd", {}, "S")),
    ),
    range("brush-size", phrase("retouch.size"), { min: "0", max: String(SIZE_STEPS), oninput: (event) => setBrush({ size: sliderToSize(Number(event.target.value)) }) }, ""),
    range("brush-opacity", phrase("retouch.opacity"), { min: "1", max: "100", oninput: (event) => setBrush({ opacity: Number(event.target.value) / 100 }) }, ""),
    range("brush-hardness", phrase("retouch.hardness"), { min: "0", max: "100", oninput: (event) => setBrush({ hardness: Number(event.target.value) / 100 }) }, ""),
    element(
      "div.row",
      {},
      element("label.unseen", { for: "brush-mode" }, phrase("retouch.mode")),
      element("select", { id: "brush-mode", onchange: (event) => setBrush({ mode: event.target.value }) }, choices(MODES)),
      element("button.toggle.small", { id: "eraser", onclick: () => toggleEraser() }, phrase("retouch.erase"), element("kbd", {}, "E")),
    ),
    toggle("brush-stays", phrase("retouch.stay"), phrase("retouch.stay-hint"), (event) => toggleStaying(event.target.checked)),
    element("div", { id: "tolerance-field" }, range("brush-tolerance", phrase("retouch.tolerance"), { min: "1", max: "60", oninput: setTo("tolerance") }, "")),
    element(
      "details.strokes.more",
      {},
      element("summary", {}, phrase("retouch.more")),
      range("brush-flow", phrase("retouch.flow"), { min: "1", max: "100", oninput: setTo("flow") }, ""),
      toggle("brush-matches", phrase("retouch.match"), phrase("retouch.match-hint"), (event) => setBrush({ matches: event.target.checked })),
      element("div.row", {}, element("label.unseen", { for: "brush-pen" }, phrase("retouch.pen")), element("select", { id: "brush-pen", onchange: (event) => setBrush({ pen: event.target.value }) }, choices(PEN_USES))),
    ),
    element(
      "div.row",
      {},
      element("button.grow", { id: "undo", onclick: undo }, icon("undo"), phrase("retouch.undo")),
      element("button.grow", { id: "redo", onclick: redo }, icon("redo"), phrase("retouch.redo")),
    ),
    element("p.hint", { id: "stroke-count", role: "status" }),
    element(
      "label.switch",
      {},
      element("input", { type: "checkbox", role: "switch", id: "beside", onchange: (event) => setView(event.target.checked ? "side" : "result") }),
      element("span", {}, element("strong", {}, phrase("retouch.beside")), element("small", {}, phrase("retouch.beside-hint"))),
    ),
    element("details.strokes", { id: "stroke-details", hidden: true }, element("summary", {}, phrase("strokes.heading")), element("ol.stroke-list", { id: "stroke-list" })),
    element("div", { id: "alternatives" }),
  );
}

function drawPanel() {
  if (phase() !== "done") return;
  if (!byId("brush")) build();
  const { size, hardness, opacity, mode, erases, stays, matches, pen } = state.brush;
  byId("brush").setAttribute("aria-pressed", String(state.brush.on));
  byId("source").replaceChildren(...inGroups(sourceLayers(), sourceOf(state.other)));
  byId("brush-size").value = sizeToSlider(size);
  byId("brush-size").setAttribute("aria-valuetext", phrase("retouch.across", { size }));
  byId("brush-size-value").textContent = phrase("retouch.pixels", { size });
  byId("brush-hardness").value = Math.round(hardness * 100);
  byId("brush-hardness-value").textContent = `${Math.round(hardness * 100)} %`;
  byId("brush-opacity").value = Math.round(opacity * 100);
  byId("brush-opacity-value").textContent = `${Math.round(opacity * 100)} %`;
  for (const name of ["flow", "tolerance"]) {
    byId(`brush-${name}`).value = Math.round(state.brush[name] * 100);
    byId(`brush-${name}-value`).textContent = `${Math.round(state.brush[name] * 100)} %`;
  }
  byId("brush-stays").checked = stays;
  byId("tolerance-field").hidden = !stays;
  byId("brush-matches").checked = matches;
  byId("brush-pen").value = pen;
  byId("brush-mode").value = mode;
  byId("brush-mode").disabled = erases;
  byId("eraser").setAttribute("aria-pressed", String(erases));
  byId("beside").checked = state.view === "side";
  byId("quick-brush").setAttribute("aria-pressed", String(state.brush.on));
  drawCount();
}

function drawCount() {
  if (phase() !== "done" || !byId("undo")) return;
  const { strokes, redo_count } = state.job;
  const shown = strokes.filter(({ hidden }) => !hidden).length;
  byId("undo").disabled = !strokes.length;
  byId("redo").disabled = !redo_count;
  byId("quick-undo").disabled = !strokes.length;
  byId("stroke-count").textContent = isSending() ? phrase("retouch.rendering") : strokes.length ? shown < strokes.length ? phrase("retouch.some", { shown, count: strokes.length }) : phrase("retouch.all", { strokes: plural(strokes.length, "stroke") }) : "";
  canvas.dataset.strokes = String(strokes.length);
  canvas.dataset.busy = String(isSending());
}

on("job view brush", drawPanel);
on("strokes", drawCount);
