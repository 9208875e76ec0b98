// The bar over the picture: which view, compared with what; the slider's handle, the names, the legend, the zoom.

import { byId, element, icon } from "./elements.js";
import { announce } from "./messages.js";
import { nameOf, on, otherLayers, phase, setOther, setView, state } from "./state.js";
import { canvas, fitPicture, invalidate, singleLayer, view, zoomBy, zoomTo } from "./viewer.js";

/** Every view: name, title, key, and what it says to someone who does not know it. */
export const VIEWS = [
  ["result", "Result", "V", "the fused picture"],
  ["finished", "Finished", "W", "cropped, turned, healed and with its tones, as files will be"],
  ["slider", "Slider", "C", "a frame on the left, the result on the right of a line that you move"],
  ["side", "Side by side", "X", "a frame and the result, moving together"],
  ["flicker", "Flicker", "F", "a frame and the result in turn, at the same place"],
  ["difference", "Difference", "D", "where the result differs from a frame, amplified"],
  ["depth", "Depth", "M", "how far away the sharp thing is, as a coloured picture"],
  ["decision", "Decision", "G", "which frame each place was taken from"],
  ["confidence", "Confidence", "K", "how sure the method was"],
  ["relief", "3D", "3", "the result on its depth, to turn with the mouse"],
];
const COMPARING = ["slider", "side", "flicker", "difference"];
const MOST_KEYS = 12; // of the legend
const LAYER_OF = { depth: "depth", decision: "decision", confidence: "confidence", relief: "depth" };

/** Whether the present result has what a view shows. */
export function isPossible(name) {
  const { result } = state.job ?? {};
  if (!result) return false;
  if (COMPARING.includes(name)) return otherLayers().length > 0;
  return !LAYER_OF[name] || result.layers.includes(LAYER_OF[name]);
}

function buildViews() {
  byId("views").replaceChildren(
    ...VIEWS.map(([name, title, key, meaning]) =>
      element(
        "label",
        { title: `${title}: ${meaning} (${key})` },
        element("input", { type: "radio", name: "view", value: name, checked: state.view === name, onchange: () => setView(name) }),
        element("span", {}, title),
      ),
    ),
  );
}

const GROUPS = { frame: "Frames", result: "Results", method: "Other methods" };

/** Layers as the options of a list, frames, results and methods each together. */
export function inGroups(layers, chosen) {
  const options = (kind) => layers.filter((other) => other.kind === kind).map(({ layer, name }) => element("option", { value: layer, selected: layer === chosen }, name));
  return Object.entries(GROUPS)
    .map(([kind, label]) => element("optgroup", { label }, options(kind)))
    .filter((group) => group.children.length);
}

function drawBar() {
  if (phase() !== "done") return;
  if (!byId("views").firstChild) buildViews();
  if (!isPossible(state.view)) {
    setView("result");
    return;
  }
  for (const input of byId("views").querySelectorAll("input")) {
    input.checked = input.value === state.view;
    input.disabled = !isPossible(input.value);
  }
  const compares = COMPARING.includes(state.view);
  byId("against").hidden = !compares;
  byId("against-select").replaceChildren(
    ...inGroups(otherLayers(), state.other),
  );
  byId("handle").hidden = state.view !== "slider";
  byId("relief").hidden = state.view !== "relief";
  canvas.hidden = state.view === "relief";
  byId("zoom").hidden = state.view === "relief";
  drawNames();
  drawLegend();
  drawHandle();
}

function drawNames() {
  const split = state.view === "slider" || state.view === "side";
  const result = state.job.results.some(({ open, deleted }) => !open && !deleted) ? state.job.result.name : "Result";
  const shown = { result, finished: "Finished", depth: "Depth", decision: "Decision", confidence: "Confidence" };
  const single = state.view === "relief" ? "" : singleLayer();
  const apart = single.startsWith("difference-") ? single.slice(11) : null;
  const name = apart ? `Difference from ${nameOf(state.job.result.layers.includes(apart) ? apart : `frame-${apart}`)}` : (shown[single] ?? nameOf(single));
  byId("name-left").textContent = split ? nameOf(state.other) : name;
  byId("name-left").hidden = state.view === "relief";
  byId("name-right").textContent = result;
  byId("name-right").hidden = !split;
  const { bit_depth, white } = state.job.result;
  const [width, height] = state.view === "finished" ? state.job.result.finished_size : [state.job.result.width, state.job.result.height];
  const brighter = white < 1 ? `, shown ${Number((1 / white).toPrecision(2))} times brighter` : "";
  byId("picture-size").textContent = `${width} × ${height}, ${bit_depth} bit${brighter}`;
  canvas.setAttribute("aria-label", `${VIEWS.find(([key]) => key === state.view)[1]}: ${width} by ${height} pixels. Arrow keys move, plus and minus zoom.`);
}

function drawLegend() {
  const box = byId("legend");
  const legends = state.job.result.legends ?? {};
  const kind = state.view === "relief" ? null : state.view;
  box.hidden = !legends[kind];
  if (box.hidden) return;
  if (kind === "decision" && Object.keys(legends.decision).length <= MOST_KEYS) {
    box.replaceChildren(
      ...Object.entries(legends.decision).map(([id, colour]) => {
        const swatch = element("i");
        swatch.style.background = colour;
        return element("span.key", {}, swatch, nameOf(`frame-${id}`));
      }),
    );
    return;
  }
  const { colours, ends } = kind === "decision" ? asScale(legends.decision) : legends[kind];
  const bar = element("i.ramp");
  bar.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  box.replaceChildren(element("span", {}, ends[0]), bar, element("span", {}, ends[1]));
}

/** The colours of many frames as a scale from the first to the last, because a list would hide the picture. */
function asScale(keys) {
  const ids = Object.keys(keys);
  return { colours: Object.values(keys), ends: [ids[0], ids.at(-1)].map((id) => nameOf(`frame-${id}`)) };
}

function drawHandle() {
  const handle = byId("handle");
  handle.style.left = `${view.split * 100}%`;
  handle.setAttribute("aria-valuenow", String(Math.round(view.split * 100)));
  handle.setAttribute("aria-valuetext", `${Math.round(view.split * 100)} % of the width shows ${nameOf(state.other)}`);
}

function moveSplit(share) {
  view.split = Math.min(1, Math.max(0, share));
  drawHandle();
  invalidate();
}

function onHandleKey(event) {
  const steps = { ArrowLeft: -0.02, ArrowDown: -0.02, ArrowRight: 0.02, ArrowUp: 0.02, PageDown: -0.1, PageUp: 0.1 };
  if (event.key in steps) moveSplit(view.split + steps[event.key]);
  else if (event.key === "Home") moveSplit(0);
  else if (event.key === "End") moveSplit(1);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function buildHandle() {
  const handle = byId("handle");
  handle.addEventListener("keydown", onHandleKey);
  handle.addEventListener("wheel", (event) => {
    event.preventDefault();
    canvas.dispatchEvent(new WheelEvent("wheel", event)); // zoom works over the handle too
  });
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
  });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const box = canvas.getBoundingClientRect();
    moveSplit((event.clientX - box.left) / box.width);
  });
}

function buildZoom() {
  const button = (label, key, content, action) =>
    element("button.plain", { "aria-label": label, title: `${label} (${key})`, onclick: action }, content);
  byId("zoom").replaceChildren(
    button("Zoom out", "-", icon("minus"), () => zoomBy(1 / 1.4)),
    element("output", { id: "zoom-value", "aria-live": "off" }),
    button("Zoom in", "+", icon("plus"), () => zoomBy(1.4)),
    button("Whole picture", "0", "Fit", fitPicture),
    button("One pixel on one pixel", "1", "100 %", () => zoomTo(1)),
  );
}

/** Shows the other layer instead of the result while a key is held. */
export function peek(held) {
  if (view.peeking === held) return;
  view.peeking = held;
  drawNames();
  invalidate();
}

buildZoom();
buildHandle();
byId("against-select").addEventListener("change", (event) => setOther(event.target.value));
on("job view", drawBar);
on("flicker", () => phase() === "done" && drawNames());
on("camera", () => (byId("zoom-value").textContent = `${Math.round(view.camera.scale * 100)} %`));
on("cursor", (point) => {
  const inside = point && view.store && point.x >= 0 && point.y >= 0 && point.x < view.store.width && point.y < view.store.height;
  byId("cursor-place").textContent = inside ? `x ${Math.floor(point.x)}, y ${Math.floor(point.y)}` : "";
});
on("view", () => phase() === "done" && announce(`View: ${VIEWS.find(([key]) => key === state.view)[1]}`));
