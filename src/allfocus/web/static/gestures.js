// Mouse, touch and keys on the picture: pan, zoom to the cursor, pinch; the brush takes over where it is on.

import { on, state } from "./state.js";
import { canvas, fitPicture, invalidate, panBy, screenPoint, view, zoomBy, zoomTo } from "./viewer.js";

const KEY_STEP = 80;

/** What the brush does with a pointer; filled by the retouch module. */
export const brush = { begin: () => false, extend() {}, end() {}, abandon() {}, hover() {}, leave() {}, resize() {}, step() {}, dab() {} };

const pointers = new Map();
let painting = false;
let pinch = null;
let spaceHeld = false;

function onDown(event) {
  canvas.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, screenPoint(event));
  if (pointers.size === 2) {
    if (painting) brush.abandon();
    painting = false;
    pinch = measurePinch();
    return;
  }
  const plain = event.button === 0 && !spaceHeld;
  painting = plain && state.brush.on && brush.begin(event);
  canvas.classList.toggle("panning", !painting);
}

function measurePinch() {
  const [first, second] = [...pointers.values()];
  return {
    distance: Math.hypot(first.x - second.x, first.y - second.y),
    middle: { x: (first.x + second.x) / 2, y: (first.y + second.y) / 2 },
  };
}

function onMove(event) {
  const before = pointers.get(event.pointerId);
  if (!before) {
    brush.hover(event);
    return;
  }
  const now = screenPoint(event);
  pointers.set(event.pointerId, now);
  if (pinch && pointers.size === 2) {
    const next = measurePinch();
    panBy(next.middle.x - pinch.middle.x, next.middle.y - pinch.middle.y);
    if (pinch.distance > 0) zoomBy(next.distance / pinch.distance, next.middle);
    pinch = next;
  } else if (painting) brush.extend(event);
  else panBy(now.x - before.x, now.y - before.y);
}

function onUp(event) {
  pointers.delete(event.pointerId);
  if (pointers.size < 2) pinch = null;
  if (painting && !pointers.size) {
    if (event.type === "pointercancel") brush.abandon();
    else brush.end(event);
    painting = false;
  }
  if (!pointers.size) canvas.classList.remove("panning");
}

function onWheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  const amount = (event.deltaY || event.deltaX) * lines;
  if (event.shiftKey && state.brush.on) {
    brush.resize(amount < 0 ? 1.12 : 1 / 1.12);
    return;
  }
  // A touchpad's pinch arrives as wheel events with the control key, in smaller steps.
  zoomBy(Math.exp(-amount * (event.ctrlKey ? 0.01 : 0.0018)), screenPoint(event));
}

function onDoubleClick(event) {
  if (state.brush.on) return;
  if (view.camera.scale < 0.999) zoomTo(1, screenPoint(event));
  else fitPicture();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const directions = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const direction = directions[event.key];
  if (direction && state.brush.on) brush.step(-direction[0], -direction[1], event.shiftKey);
  else if (direction) panBy(direction[0] * KEY_STEP, direction[1] * KEY_STEP);
  else if (event.key === "Enter" && state.brush.on) brush.dab();
  else if (event.key === " ") setSpace(true);
  else return;
  event.preventDefault();
}

function setSpace(held) {
  spaceHeld = held;
  canvas.classList.toggle("hand", held);
  invalidate();
}

canvas.addEventListener("pointerdown", onDown);
canvas.addEventListener("pointermove", onMove);
canvas.addEventListener("pointerup", onUp);
canvas.addEventListener("pointercancel", onUp);
canvas.addEventListener("pointerleave", () => brush.leave());
canvas.addEventListener("wheel", onWheel, { passive: false });
canvas.addEventListener("dblclick", onDoubleClick);
canvas.addEventListener("contextmenu", (event) => state.brush.on && event.preventDefault());
canvas.addEventListener("keydown", onKey);
canvas.addEventListener("keyup", (event) => event.key === " " && setSpace(false));
canvas.addEventListener("blur", () => setSpace(false));
on("brush", () => canvas.classList.toggle("brushing", state.brush.on));
