// The result on a canvas: draws the visible tiles of one or two layers under one camera, once per change and no more.

import { LARGEST_SCALE, fit, keepInside, toPicture, toScreen, zoomAt } from "./camera.js";
import { byId } from "./elements.js";
import { say } from "./messages.js";
import { emit, on, phase, state } from "./state.js";
import { FinishedStore } from "./finished.js";
import { phrase } from "./texts.js";
import { TileStore } from "./tiles.js";

const FLICKER_MILLISECONDS = 600;
const SPLIT_GAP = 2;

export const canvas = byId("canvas");
const context = canvas.getContext("2d");

export const view = {
  store: null,
  camera: { x: 0, y: 0, scale: 1 },
  split: 0.5, // of the slider, as a share of the width
  peeking: false, // the other layer is shown instead of the result while a key is held
  flickered: false,
  fitted: true, // follows the size of the window until someone zooms or pans
  isToned: false, // a filter changes the tones; what surrounds the picture is left out of it
  overlays: [], // functions (context, pane) that draw over each pane
};

let scheduled = false;
let flickerTimer = null;
let background = "#202122";

/** Asks for a new drawing with the next frame of the screen. */
export function invalidate() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

/** The parts of the canvas: { layer, left, top, width, height, clip } in device pixels. */
export function panes() {
  const whole = { left: 0, top: 0, width: canvas.width, height: canvas.height, clip: null };
  const { view: mode, other } = state;
  if (mode === "slider" && other) {
    const split = Math.round(canvas.width * view.split);
    return [
      { ...whole, layer: other, clip: [0, 0, split, canvas.height] },
      { ...whole, layer: "result", clip: [split, 0, canvas.width - split, canvas.height] },
    ];
  }
  if (mode === "side" && other) return sideBySide(other);
  return [{ ...whole, layer: singleLayer() }];
}

function sideBySide(other) {
  const { width, height } = canvas;
  const upright = height > width;
  const half = Math.floor(((upright ? height : width) - SPLIT_GAP) / 2);
  const first = upright ? { left: 0, top: 0, width, height: half } : { left: 0, top: 0, width: half, height };
  const second = upright ? { ...first, top: half + SPLIT_GAP } : { ...first, left: half + SPLIT_GAP };
  const clipped = (pane) => ({ ...pane, clip: [pane.left, pane.top, pane.width, pane.height] });
  return [
    { ...clipped(first), layer: other },
    { ...clipped(second), layer: "result" },
  ];
}

/** The layer of the views that show one: the result, one of its maps, or the other layer while that is looked at. */
export function singleLayer() {
  const { view: mode, other, job } = state;
  const layers = job?.result?.layers ?? [];
  if (mode === "finished") return "finished";
  if (mode === "difference") return differenceLayer();
  if (["depth", "decision", "confidence"].includes(mode) && layers.includes(mode)) return mode;
  if (other && (view.peeking || (mode === "flicker" && view.flickered))) return other;
  return "result";
}

function differenceLayer() {
  const layers = state.job.result.layers;
  const wanted = `difference-${(state.other ?? "").replace(/^frame-/, "")}`;
  return layers.includes(wanted) ? wanted : (layers.find((layer) => layer.startsWith("difference-")) ?? "result");
}

export const bestLevel = (scale = view.camera.scale) =>
  Math.min(view.store.levels - 1, Math.max(0, Math.floor(Math.log2(1 / scale) + 0.01)));

/** Draws the tiles of a layer that meet the area, which is in device pixels: [left, top, width, height]. */
export function drawLayer(target, layer, pane, area = null) {
  const { store, camera } = view;
  const level = bestLevel();
  const span = store.size * 2 ** level;
  const [left, top, width, height] = area ?? pane.clip ?? [pane.left, pane.top, pane.width, pane.height];
  const first = toPicture(camera, pane, { x: left, y: top });
  const last = toPicture(camera, pane, { x: left + width, y: top + height });
  target.imageSmoothingEnabled = camera.scale < 3; // from 300 % on, pixels are shown as the squares they are
  target.imageSmoothingQuality = "low";
  const columns = [Math.max(0, Math.floor(first.x / span)), Math.min(Math.ceil(store.width / span), Math.ceil(last.x / span))];
  const rows = [Math.max(0, Math.floor(first.y / span)), Math.min(Math.ceil(store.height / span), Math.ceil(last.y / span))];
  for (let row = rows[0]; row < rows[1]; row += 1) {
    for (let column = columns[0]; column < columns[1]; column += 1) drawTile(target, layer, pane, level, column, row);
  }
  return { level, columns, rows };
}

function drawTile(target, layer, pane, level, column, row) {
  const { store, camera } = view;
  const area = store.areaOf(level, column, row);
  const from = toScreen(camera, pane, { x: area[0], y: area[1] });
  const to = toScreen(camera, pane, { x: area[2], y: area[3] });
  // Whole device pixels, because two soft edges side by side would let the background shine through as a seam.
  const box = [Math.round(from.x), Math.round(from.y), Math.round(to.x), Math.round(to.y)];
  const bitmap = store.get(layer, level, column, row);
  if (bitmap) {
    target.drawImage(bitmap, box[0], box[1], box[2] - box[0], box[3] - box[1]);
    return;
  }
  for (let coarse = level + 1; coarse < store.levels; coarse += 1) {
    const step = coarse - level;
    const parent = store.peek(layer, coarse, column >> step, row >> step);
    if (!parent) continue;
    const whole = store.areaOf(coarse, column >> step, row >> step);
    const scale = parent.width / (whole[2] - whole[0]);
    target.drawImage(
      parent,
      (area[0] - whole[0]) * scale,
      (area[1] - whole[1]) * scale,
      (area[2] - area[0]) * scale,
      (area[3] - area[1]) * scale,
      box[0],
      box[1],
      box[2] - box[0],
      box[3] - box[1],
    );
    return;
  }
}

function draw() {
  const { store } = view;
  context.fillStyle = background;
  if (view.isToned) context.clearRect(0, 0, canvas.width, canvas.height);
  else context.fillRect(0, 0, canvas.width, canvas.height);
  if (!store || !canvas.width) return;
  store.beginDrawing();
  const drawn = [];
  for (const pane of panes()) {
    context.save();
    if (pane.clip) {
      context.beginPath();
      context.rect(...pane.clip);
      context.clip();
    }
    drawn.push({ layer: pane.layer, ...drawLayer(context, pane.layer, pane) });
    for (const overlay of view.overlays) overlay(context, pane);
    context.restore();
  }
  const complete = store.isComplete;
  if (complete) for (const part of drawn) askAhead(part);
  store.endDrawing();
  canvas.dataset.complete = String(complete);
  byId("loading").classList.toggle("shown", !complete);
  emit("drawn");
}

/** One ring of tiles around the view and the smallest level, once all in view are here: panning then finds them. */
function askAhead({ layer, level, columns, rows }) {
  const { store } = view;
  const span = store.size * 2 ** level;
  const count = { columns: Math.ceil(store.width / span), rows: Math.ceil(store.height / span) };
  if (level !== store.levels - 1) store.get(layer, store.levels - 1, 0, 0);
  // The server aligns a frame again when it is first looked at; asked for now, that is done before somebody looks.
  if (state.other) store.get(state.other, store.levels - 1, 0, 0);
  for (let row = Math.max(0, rows[0] - 1); row < Math.min(count.rows, rows[1] + 1); row += 1) {
    for (let column = Math.max(0, columns[0] - 1); column < Math.min(count.columns, columns[1] + 1); column += 1) {
      store.get(layer, level, column, row);
    }
  }
}

/** The position of a pointer in device pixels of the canvas. */
export function screenPoint(event) {
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  return { x: (event.clientX - box.left) * ratio, y: (event.clientY - box.top) * ratio };
}

/** The pane under a point of the canvas. */
export function paneAt(screen) {
  const all = panes();
  const inside = ({ left, top, width, height, clip }) => {
    const [x, y, wide, high] = clip ?? [left, top, width, height];
    return screen.x >= x && screen.x < x + wide && screen.y >= y && screen.y < y + high;
  };
  return all.find(inside) ?? all[0];
}

function setCamera(camera, fitted = false) {
  view.camera = camera;
  view.fitted = fitted;
  invalidate();
  emit("camera");
}

export function panBy(x, y) {
  const { camera, store } = view;
  if (!store) return;
  setCamera(keepInside({ ...camera, x: camera.x - x / camera.scale, y: camera.y - y / camera.scale }, store));
}

export function zoomTo(scale, screen = null) {
  if (!view.store) return;
  const pane = screen ? paneAt(screen) : panes()[0];
  const point = screen ?? { x: pane.left + pane.width / 2, y: pane.top + pane.height / 2 };
  setCamera(zoomAt(view.camera, view.store, pane, point, scale));
}

export const zoomBy = (factor, screen = null) => zoomTo(view.camera.scale * factor, screen);

/** Brings a place of the picture into the middle of the view. */
export function lookAt(point, scale) {
  if (view.store) setCamera(keepInside({ ...point, scale: Math.min(LARGEST_SCALE, Math.max(fit(view.store, panes()[0]).scale, scale)) }, view.store));
}

export function fitPicture() {
  if (view.store) setCamera(fit(view.store, panes()[0]), true);
}

/** Shows the result of the present job from its beginning. */
export function openResult() {
  const before = view.store;
  before?.close();
  const Store = state.view === "finished" ? FinishedStore : TileStore;
  view.store = new Store(state.job, { changed: invalidate, failed: (text) => say(phrase("viewer.part", { reason: text }), "error") });
  resize();
  const { id, width, height } = view.store;
  if (before?.id === id && before.width === width && before.height === height) invalidate(); // another of this stack
  else fitPicture();
}

export function closeResult() {
  view.store?.close();
  view.store = null;
  invalidate();
}

function resize() {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(box.width * ratio);
  const height = Math.round(box.height * ratio);
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  if (view.fitted) fitPicture();
  else invalidate();
}

function followView() {
  clearInterval(flickerTimer);
  flickerTimer = null;
  view.flickered = false;
  if (state.view === "flicker" && view.store) {
    flickerTimer = setInterval(() => {
      view.flickered = !view.flickered;
      invalidate();
      emit("flicker");
    }, FLICKER_MILLISECONDS);
  }
  if (view.store && view.store instanceof FinishedStore !== (state.view === "finished")) openResult();
  else if (view.fitted) fitPicture();
  invalidate();
}

function readTheme() {
  background = getComputedStyle(canvas.parentElement).backgroundColor || background;
  invalidate();
}

new ResizeObserver(resize).observe(canvas);
on("theme", readTheme);
on("result", openResult);
on("view result", followView);
on("job", () => {
  if (view.store && (phase() !== "done" || state.job.id !== view.store.id)) closeResult();
  else if (view.store instanceof FinishedStore && !view.store.fits(state.job)) openResult();
  else view.store?.follow(state.job.result.revision);
  invalidate();
});
on("brush", invalidate);
on("server", () => state.serverIsGone || view.store?.retry());
readTheme();
