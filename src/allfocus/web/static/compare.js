// The bar over the picture: which view, compared with what; the slider's handle, the names, the legend, the zoom.

import { byId, element, icon } from "./elements.js";
import { announce } from "./messages.js";
import { nameOf, on, otherLayers, phase, setOther, setView, state } from "./state.js";
import { phrase, serverPhrase } from "./texts.js";
import { canvas, fitPicture, invalidate, singleLayer, view, zoomBy, zoomTo } from "./viewer.js";

/** Every view: name, title, key, and what it says to someone who does not know it. */
export const VIEWS = [
  ["result", phrase("compare.result"), "V", phrase("compare.result-hint")],
  ["finished", phrase("compare.finished"), "W", phrase("compare.finished-hint")],
  ["slider", phrase("compare.slider"), "C", phrase("compare.slider-hint")],
  ["side", phrase("compare.side"), "X", phrase("compare.side-hint")],
  ["flicker", phrase("compare.flicker"), "F", phrase("compare.flicker-hint")],
  ["difference", phrase("compare.difference"), "D", phrase("compare.difference-hint")],
  ["depth", phrase("compare.depth"), "M", phrase("compare.depth-hint")],
  ["decision", phrase("compare.decision"), "G", phrase("compare.decision-hint")],
  ["confidence", phrase("compare.confidence"), "K", phrase("compare.confidence-hint")],
  ["relief", phrase("compare.relief"), "3", phrase("compare.relief-hint")],
];
const COMPARING = ["slider", "side", "flicker", "difference"];
const MOST_KEYS = 12; // of the legend
const LAYER_OF = { depth: "depth", decision: "decision", confidence: "confidence", relief: "depth" };

/** Whether the present result has what a view shows. */
export function isPossible(name) {
  const { result } = state.job ?? {};
  if (!result) return false;
  if (COMPARING.includes(name)) return otherLayers().length > 0;
  if (name === "finished") return !result.channels.length;
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

const GROUPS = { frame: phrase("page.frames"), result: phrase("results.heading"), method: phrase("compare.methods") };

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
  const result = state.job.results.some(({ open, deleted }) => !open && !deleted) ? state.job.result.name : phrase("compare.result");
  const shown = { result, finished: phrase("compare.finished"), depth: phrase("compare.depth"), decision: phrase("compare.decision"), confidence: phrase("compare.confidence") };
  const single = state.view === "relief" ? "" : singleLayer();
  const apart = single.startsWith("difference-") ? single.slice(11) : null;
  const name = apart ? phrase("compare.difference-from", { name: nameOf(state.job.result.layers.includes(apart) ? apart : `frame-${apart}`) }) : (shown[single] ?? nameOf(single));
  byId("name-left").textContent = split ? nameOf(state.other) : name;
  byId("name-left").hidden = state.view === "relief";
  byId("name-right").textContent = result;
  byId("name-right").hidden = !split;
  const { bit_depth, white } = state.job.result;
  const [width, height] = state.view === "finished" ? state.job.result.finished_size : [state.job.result.width, state.job.result.height];
  const brighter = white < 1 ? `, ${phrase("compare.brighter", { factor: Number((1 / white).toPrecision(2)) })}` : "";
  byId("picture-size").textContent = `${phrase("page.size", { width, height, bits: bit_depth })}${brighter}`;
  canvas.setAttribute("aria-label", phrase("compare.canvas", { view: VIEWS.find(([key]) => key === state.view)[1], width, height }));
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
  box.replaceChildren(element("span", {}, serverPhrase(`legend.${ends[0]}`, ends[0])), bar, element("span", {}, serverPhrase(`legend.${ends[1]}`, ends[1])));
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
  handle.setAttribute("aria-valuetext", phrase("compare.split", { percent: Math.round(view.split * 100), name: nameOf(state.other) }));
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
    button(phrase("compare.zoom-out"), "-", icon("minus"), () => zoomBy(1 / 1.4)),
    element("output", { id: "zoom-value", "aria-live": "off" }),
    button(phrase("compare.zoom-in"), "+", icon("plus"), () => zoomBy(1.4)),
    button(phrase("compare.whole"), "0", phrase("compare.fit"), fitPicture),
    button(phrase("compare.one-to-one"), "1", "100 %", () => zoomTo(1)),
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
on("view", () => phase() === "done" && announce(phrase("compare.announce", { view: VIEWS.find(([key]) => key === state.view)[1] })));
