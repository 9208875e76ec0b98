// The retouch brush: paints from a frame or another method's result into the result; the server renders at full depth.

import * as api from "./api.js";
import { toPicture } from "./camera.js";
import { asSentence, byId, element, icon, plural } from "./elements.js";
import { brush as pointer } from "./gestures.js";
import { announce, attempt, say } from "./messages.js";
import { inOrder, titleOf } from "./options.js";
import { areaOfStroke, drawRim, drawStroke } from "./painting.js";
import { sharpestFrame } from "./sharpest.js";
import { alternativeAtWork, emit, nameOf, on, otherLayers, phase, refreshJob, setBrush, setJob, setOther, setView, state } from "./state.js";
import { bestLevel, canvas, invalidate, paneAt, panes, screenPoint, view } from "./viewer.js";

const PAINTABLE = ["result", "side"];
let current = null; // the stroke under the pointer
let beganIn = null; // the layer of the pane in which it began
let pending = []; // strokes whose new tiles have not arrived
let cursor = null; // where the brush hovers, in pixels of the result
let working = Promise.resolve();
let waitingCalls = 0;

const tenth = (value) => Math.round(value * 10) / 10;

/** What is sent; coordinates as on the canvas: the first pixel covers 0 to 1. */
const asSent = ({ source, points, radius, hardness }) => ({ source, points, radius, hardness });
const radius = () => state.brush.size / 2;
const strokeAt = (point) => ({
  source: state.other,
  points: [[tenth(point.x), tenth(point.y)]],
  radius: radius(),
  hardness: state.brush.hardness,
});

/** Runs calls that change the result one after the other, so that their order is the order of the gestures. */
function inTurn(action) {
  waitingCalls += 1;
  emit("strokes");
  working = working.then(() => attempt(action)).finally(() => {
    waitingCalls -= 1;
    emit("strokes");
  });
  return working;
}

function takeChange(job, { revision, area, ...rest }) {
  if (state.job?.id !== job.id) return;
  const isKnown = view.store?.edit(revision, area);
  setJob({ ...state.job, ...rest, result: { ...state.job.result, revision } });
  invalidate();
  if (!isKnown) refreshJob(); // another window painted too
}

function send(stroke) {
  const { job } = state;
  pending.push(stroke);
  return inTurn(async () => {
    try {
      const answer = await api.addStroke(job.id, asSent(stroke));
      stroke.revision = answer.revision;
      stroke.area = answer.area;
      takeChange(job, { revision: answer.revision, area: answer.area, strokes: [...state.job.strokes, answer.stroke], redo_count: 0 });
      announce(`Painted from ${nameOf(stroke.source)}.`);
    } catch (problem) {
      pending = pending.filter((other) => other !== stroke);
      invalidate();
      if (problem.status === 0) say("The last stroke could not be sent and is not in the result. Paint it again.", "bad");
      throw problem;
    }
  });
}

function stepBack(call, word) {
  const { job } = state;
  return inTurn(async () => {
    const { revision, area, strokes, redo_count } = await call(job.id);
    pending = [];
    takeChange(job, { revision, area, strokes, redo_count });
    announce(`${word}. ${plural(strokes.length, "stroke")} in the result.`);
  });
}

export const undo = () => phase() === "done" && state.job.strokes.length > 0 && stepBack(api.undo, "Undone");
export const redo = () => phase() === "done" && state.job.redo_count > 0 && stepBack(api.redo, "Done again");

export function toggleBrush(wanted = !state.brush.on) {
  if (wanted && phase() !== "done") return;
  if (wanted && !PAINTABLE.includes(state.view)) setView("result");
  setBrush({ on: wanted });
  if (wanted) emit("show-picture");
  announce(wanted ? `Brush on, painting from ${nameOf(state.other)}.` : "Brush off.");
}

export const resizeBrush = (factor) => {
  const { size } = state.brush;
  setBrush({ size: factor > 1 ? Math.max(size + 1, size * factor) : Math.min(size - 1, size * factor) });
};

/** Takes the previous or next layer as the source. */
export function stepSource(step) {
  const layers = otherLayers();
  const place = layers.findIndex(({ layer }) => layer === state.other);
  const next = layers[(place + step + layers.length) % layers.length];
  if (!next) return;
  setOther(next.layer);
  announce(`Source: ${next.name}`);
}

/** Takes the frame that is sharpest under the cursor as the source; in the middle of the view without a cursor. */
export async function pickSharpest() {
  if (phase() !== "done" || !view.store || byId("pick-sharpest").disabled) return;
  const label = byId("pick-sharpest-label");
  const shown = label.textContent;
  label.textContent = "Comparing the frames…"; // the first time each must be aligned again
  const layer = await attempt(() => sharpestFrame(cursor ?? view.camera), byId("pick-sharpest"));
  label.textContent = shown;
  if (!layer) return;
  setOther(layer);
  say(`${nameOf(layer)} is sharpest here.`, "good");
}

/** The place in the result under a pointer; a stroke stays with the pane in which it began. */
function pointOf(event, layer = null) {
  const screen = screenPoint(event);
  const pane = panes().find((part) => part.layer === layer) ?? paneAt(screen);
  return toPicture(view.camera, pane, screen);
}

const isOnPicture = (point) =>
  point.x > -radius() && point.y > -radius() && point.x < view.store.width + radius() && point.y < view.store.height + radius();

Object.assign(pointer, {
  begin(event) {
    if (!state.other || !view.store || !PAINTABLE.includes(state.view)) return false;
    const point = pointOf(event);
    if (!isOnPicture(point)) return false;
    beganIn = paneAt(screenPoint(event)).layer;
    cursor = point;
    if (event.altKey) {
      pickSharpest();
      return true;
    }
    current = strokeAt(point);
    invalidate();
    return true;
  },
  extend(event) {
    for (const part of event.getCoalescedEvents?.() ?? [event]) {
      const point = pointOf(part, beganIn);
      cursor = point;
      const last = current?.points.at(-1);
      if (!last || Math.hypot(point.x - last[0], point.y - last[1]) < Math.max(0.5, radius() / 8)) continue;
      current.points.push([tenth(point.x), tenth(point.y)]);
    }
    invalidate();
  },
  end() {
    if (current) send(current);
    current = null;
    invalidate();
  },
  abandon() {
    current = null;
    invalidate();
  },
  hover(event) {
    if (!view.store) return;
    cursor = pointOf(event);
    emit("cursor", cursor);
    if (state.brush.on) invalidate();
  },
  leave() {
    cursor = null;
    emit("cursor", null);
    if (state.brush.on) invalidate();
  },
  resize: resizeBrush,
  step(x, y, fine) {
    const length = fine ? 1 : Math.max(1, radius() / 2);
    const from = cursor ?? view.camera;
    cursor = {
      x: Math.min(view.store.width, Math.max(0, from.x + x * length)),
      y: Math.min(view.store.height, Math.max(0, from.y + y * length)),
    };
    announce(`${Math.round(cursor.x)}, ${Math.round(cursor.y)}`);
    invalidate();
  },
  dab() {
    cursor ??= { x: view.camera.x, y: view.camera.y };
    send(strokeAt(cursor));
  },
});

/** Draws what was painted and is not yet in the tiles, the stroke under way, and the source under the brush. */
view.overlays.push((context, pane) => {
  const isBeside = pane.layer !== "result";
  if (isBeside && state.brush.on && cursor && state.view === "side") drawRim(context, pane, strokeAt(cursor));
  if (isBeside) return;
  const level = bestLevel();
  pending = pending.filter((stroke) => !stroke.revision || !view.store.isFresh("result", level, stroke.area ?? areaOfStroke(stroke), stroke.revision));
  for (const stroke of pending) drawStroke(context, pane, stroke);
  if (!state.brush.on || !state.other) return;
  if (current) drawStroke(context, pane, current);
  if (!cursor) return;
  const lens = strokeAt(cursor);
  if (!current) drawStroke(context, pane, lens);
  drawRim(context, pane, lens);
});

// The panel ------------------------------------------------------------------------------------------------------

const SIZE_STEPS = 100; // the slider is logarithmic: 2 to 1000 pixels
const sizeToSlider = (size) => Math.round((Math.log(size / 2) / Math.log(500)) * SIZE_STEPS);
const sliderToSize = (value) => 2 * 500 ** (value / SIZE_STEPS);

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
    element("button.plain.toggle", { id: "quick-brush", "aria-label": "Retouch brush", onclick: () => toggleBrush() }, icon("brush")),
    element("button.plain", { id: "quick-undo", "aria-label": "Undo", onclick: undo }, icon("undo")),
  );
  byId("retouch").replaceChildren(
    element("button.wide.toggle", { id: "brush", onclick: () => toggleBrush() }, icon("brush"), element("span", {}, "Retouch brush"), element("kbd", {}, "B")),
    element(
      "div.field",
      {},
      element("label", { for: "source" }, "Paint from"),
      element(
        "div.row",
        {},
        element("button.plain", { "aria-label": "Previous source", title: "Previous source ( , )", onclick: () => stepSource(-1) }, icon("earlier")),
        element("select", { id: "source", onchange: (event) => setOther(event.target.value) }),
        element("button.plain", { "aria-label": "Next source", title: "Next source ( . )", onclick: () => stepSource(1) }, icon("later")),
      ),
      element("button.small.wide", { id: "pick-sharpest", onclick: pickSharpest }, icon("target"), element("span", { id: "pick-sharpest-label" }, "Sharpest frame here"), element("kbd", {}, "P")),
    ),
    range("brush-size", "Size", { min: "0", max: String(SIZE_STEPS), oninput: (event) => setBrush({ size: sliderToSize(Number(event.target.value)) }) }, ""),
    range("brush-hardness", "Hardness", { min: "0", max: "100", oninput: (event) => setBrush({ hardness: Number(event.target.value) / 100 }) }, ""),
    element(
      "div.row",
      {},
      element("button.grow", { id: "undo", onclick: undo }, icon("undo"), "Undo"),
      element("button.grow", { id: "redo", onclick: redo }, icon("redo"), "Redo"),
    ),
    element("p.hint", { id: "stroke-count", role: "status" }),
    element(
      "label.switch",
      {},
      element("input", { type: "checkbox", role: "switch", id: "beside", onchange: (event) => setView(event.target.checked ? "side" : "result") }),
      element("span", {}, element("strong", {}, "Source beside the result"), element("small", {}, "Both move and zoom together.")),
    ),
    element("div", { id: "alternatives" }),
  );
}

function drawAlternatives() {
  const { job } = state;
  const layers = job.result.layers;
  const rest = inOrder(state.methods).filter(({ name, available }) => available && name !== job.options?.method && !layers.includes(`method-${name}`));
  const wanted = byId("alternative")?.value;
  const under = alternativeAtWork(job);
  const failed = job.alternatives?.findLast((other) => other.state === "failed");
  const select = element("select", { id: "alternative", disabled: Boolean(under) }, rest.map(({ name }) => element("option", { value: name, selected: name === wanted }, titleOf(name))));
  const add = under
    ? element("button", { id: "cancel-alternative", onclick: () => cancelAlternative(add) }, "Cancel")
    : element("button", { id: "add-alternative", disabled: !rest.length, onclick: () => addAlternative(select.value, add) }, "Add");
  byId("alternatives").replaceChildren(
    element(
      "div.field",
      {},
      element("label", { for: "alternative" }, "Another method as a source"),
      element("div.row", {}, select, add),
      element("p.hint", { id: "alternative-hint", role: "status" }, failed?.error ? asSentence(failed.error) : ""),
    ),
  );
  drawAlternativeHint();
}

/** How far another method is; the button beside it stays the same one, so that it can be pressed. */
function drawAlternativeHint() {
  const under = alternativeAtWork(state.job);
  const share = state.progress ? ` ${Math.round(state.progress.fraction * 100)} %` : "";
  if (under) byId("alternative-hint").textContent = `${titleOf(under.method)}: at work…${share}`;
}

async function addAlternative(method, button) {
  const job = await attempt(() => api.addAlternative(state.job.id, method), button);
  if (job?.id) setJob(job);
}

async function cancelAlternative(button) {
  const job = await attempt(() => api.cancel(state.job.id), button);
  if (job) setJob(job);
}

function drawPanel() {
  if (phase() !== "done") return;
  if (!byId("brush")) build();
  const { size, hardness } = state.brush;
  byId("brush").setAttribute("aria-pressed", String(state.brush.on));
  const groups = [true, false].map((isFrame) => otherLayers().filter((other) => other.isFrame === isFrame));
  const options = (group) => group.map(({ layer, name }) => element("option", { value: layer, selected: layer === state.other }, name));
  byId("source").replaceChildren(
    element("optgroup", { label: "Frames" }, options(groups[0])),
    ...(groups[1].length ? [element("optgroup", { label: "Other methods" }, options(groups[1]))] : []),
  );
  byId("brush-size").value = sizeToSlider(size);
  byId("brush-size").setAttribute("aria-valuetext", `${size} pixels across`);
  byId("brush-size-value").textContent = `${size} px`;
  byId("brush-hardness").value = Math.round(hardness * 100);
  byId("brush-hardness-value").textContent = `${Math.round(hardness * 100)} %`;
  byId("beside").checked = state.view === "side";
  byId("quick-brush").setAttribute("aria-pressed", String(state.brush.on));
  drawCount();
}

function drawCount() {
  if (phase() !== "done" || !byId("undo")) return;
  const { strokes, redo_count } = state.job;
  byId("undo").disabled = !strokes.length;
  byId("redo").disabled = !redo_count;
  byId("quick-undo").disabled = !strokes.length;
  byId("stroke-count").textContent = waitingCalls ? "Rendering at full bit depth…" : strokes.length ? `${plural(strokes.length, "stroke")} in the result` : "";
  canvas.dataset.strokes = String(strokes.length);
  canvas.dataset.busy = String(waitingCalls > 0);
}

// Strokes are painted one after the other; those that wait would be lost with the page.
addEventListener("beforeunload", (event) => waitingCalls > 0 && event.preventDefault());
on("job view brush", drawPanel);
on("strokes", drawCount);
on("job", () => phase() === "done" && byId("alternatives") && drawAlternatives());
on("progress", () => phase() === "done" && byId("alternatives") && drawAlternativeHint());
on("view", () => state.brush.on && !PAINTABLE.includes(state.view) && setBrush({ on: false }));
on("result", () => {
  pending = [];
  current = cursor = null;
});
on("result", () => {
  // A brush that suits the picture: a fortieth of its longer side.
  setBrush({ size: Math.max(10, Math.max(state.job.result.width, state.job.result.height) / 40) });
});
