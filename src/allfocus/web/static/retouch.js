// The retouch brush: paints from a frame or another method's result into the result; the server renders at full depth.

import { matchingLight } from "./brightness.js";
import { toPicture } from "./camera.js";
import { byId } from "./elements.js";
import { brush as pointer } from "./gestures.js";
import { announce, attempt, say } from "./messages.js";
import { drawRim, drawStroke } from "./painting.js";
import { sharpestFrame } from "./sharpest.js";
import { emit, nameOf, on, phase, setBrush, setOther, setView, sourceLayers, sourceOf, state } from "./state.js";
import { forgetDabs } from "./stroke_masks.js";
import { notInTiles, send } from "./strokes.js";
import { phrase } from "./texts.js";
import { bestLevel, invalidate, paneAt, panes, screenPoint, view } from "./viewer.js";

const PAINTABLE = ["result", "side"];
let current = null; // the stroke under the pointer
let beganIn = null; // the layer of the pane in which it began
let cursor = null; // where the brush hovers, in pixels of the result

const tenth = (value) => Math.round(value * 10) / 10;
const radius = () => state.brush.size / 2;
const hundredth = (value) => Math.round(value * 100) / 100;
function strokeAt(point, event = null) {
  const { erases, hardness, opacity, mode, flow, stays, tolerance, matches, pen } = state.brush;
  const source = erases ? state.job.result.id : sourceOf(state.other);
  const isPen = event?.pointerType === "pen" && pen !== "none";
  return {
    source,
    points: [[tenth(point.x), tenth(point.y)]],
    radius: radius(),
    hardness,
    opacity,
    mode: erases ? "replace" : mode,
    flow,
    tolerance: stays ? tolerance : null,
    pen: isPen ? pen : "none",
    pressures: isPen ? [hundredth(event.pressure)] : [],
    ...(matches && !erases ? matchingLight([[point.x, point.y]], radius(), source, !state.job.result.channels.length) : { gain: 1, tint: [] }),
  };
}

/** The brush over a place before it paints. */
let lens = null;
function lensAt(point) {
  if (lens) forgetDabs(lens);
  lens = strokeAt(point);
  return lens;
}

/** The brush stays within what has the colour under its middle, or takes everything. */
export function toggleStaying(wanted = !state.brush.stays) {
  if (phase() !== "done") return;
  setBrush({ stays: wanted });
  announce(wanted ? phrase("retouch.stays-on") : phrase("retouch.stays-off"));
}

export function toggleBrush(wanted = !state.brush.on) {
  if (wanted && phase() !== "done") return;
  if (wanted && !PAINTABLE.includes(state.view)) setView("result");
  setBrush({ on: wanted });
  if (wanted) emit("show-picture");
  announce(wanted ? phrase("retouch.on", { name: nameOf(sourceOf(state.other)) }) : phrase("retouch.off"));
}

/** The brush takes strokes off again: it paints from the result as it was fused. */
export function toggleEraser(wanted = !state.brush.erases) {
  if (phase() !== "done") return;
  if (wanted && !state.brush.on) toggleBrush(true);
  setBrush({ erases: wanted });
  announce(wanted ? phrase("retouch.erases") : phrase("retouch.paints", { name: nameOf(sourceOf(state.other)) }));
}

export const resizeBrush = (factor) => {
  const { size } = state.brush;
  setBrush({ size: factor > 1 ? Math.max(size + 1, size * factor) : Math.min(size - 1, size * factor) });
};

/** Takes the previous or next layer as the source. */
export function stepSource(step) {
  const layers = sourceLayers();
  const place = layers.findIndex(({ layer }) => layer === sourceOf(state.other));
  const next = layers[(place + step + layers.length) % layers.length];
  if (!next) return;
  setOther(next.layer);
  announce(phrase("retouch.source", { name: next.name }));
}

/** Takes the frame that is sharpest under the cursor as the source; in the middle of the view without a cursor. */
export async function pickSharpest() {
  if (phase() !== "done" || !view.store || byId("pick-sharpest").disabled) return;
  const label = byId("pick-sharpest-label");
  const shown = label.textContent;
  label.textContent = phrase("retouch.comparing"); // the first time each must be aligned again
  const layer = await attempt(() => sharpestFrame(cursor ?? view.camera), byId("pick-sharpest"));
  label.textContent = shown;
  if (!layer) return;
  setOther(layer);
  say(phrase("retouch.is-sharpest", { name: nameOf(layer) }), "good");
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
    if (state.brush.erases && !state.job.strokes.length) return false; // there is nothing to take off
    const point = pointOf(event);
    if (!isOnPicture(point)) return false;
    beganIn = paneAt(screenPoint(event)).layer;
    cursor = point;
    if (event.altKey) {
      pickSharpest();
      return true;
    }
    current = strokeAt(point, event);
    invalidate();
    return true;
  },
  extend(event) {
    const parts = event.getCoalescedEvents?.() ?? [];
    for (const part of parts.length ? parts : [event]) {
      const point = pointOf(part, beganIn);
      cursor = point;
      const last = current?.points.at(-1);
      if (!last || Math.hypot(point.x - last[0], point.y - last[1]) < Math.max(0.5, radius() / 8)) continue;
      current.points.push([tenth(point.x), tenth(point.y)]);
      if (current.pen !== "none") current.pressures.push(hundredth(part.pressure));
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
    if (state.brush.erases && !state.job.strokes.length) return;
    cursor ??= { x: view.camera.x, y: view.camera.y };
    send(strokeAt(cursor));
  },
});

/** Draws what was painted and is not yet in the tiles, the stroke under way, and the source under the brush. */
view.overlays.push((context, pane) => {
  const isBeside = pane.layer !== "result";
  if (isBeside && state.brush.on && cursor && state.view === "side") drawRim(context, pane, strokeAt(cursor));
  if (isBeside) return;
  for (const stroke of notInTiles(bestLevel())) drawStroke(context, pane, stroke);
  if (!state.brush.on || !state.other || (state.brush.erases && !state.job.strokes.length)) return;
  if (current) drawStroke(context, pane, current);
  if (!cursor) return;
  const shown = lensAt(cursor);
  if (!current) drawStroke(context, pane, shown);
  drawRim(context, pane, shown);
});

on("view", () => state.brush.on && !PAINTABLE.includes(state.view) && setBrush({ on: false }));
on("result", () => {
  current = cursor = null;
  state.brush.erases = false;
  // A brush that suits the picture: a fortieth of its longer side.
  setBrush({ size: Math.max(10, Math.max(state.job.result.width, state.job.result.height) / 40) });
});
