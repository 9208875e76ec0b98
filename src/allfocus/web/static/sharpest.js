// Which frame is sharpest at one place: compares the fine detail of the frames' own tiles under the brush.

import { otherLayers } from "./state.js";
import { view } from "./viewer.js";

const SIDE = 48; // pixels of the window, large enough for texture and small enough for one depth
const AT_ONCE = 5;

/** The frame layer with the most fine detail around a point of the result. */
export async function sharpestFrame(point) {
  const layers = otherLayers().filter(({ kind }) => kind === "frame");
  const waiting = [...layers];
  const scores = new Map();
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) scores.set(next.layer, await detail(next.layer, point));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return layers.reduce((best, { layer }) => (best === null || scores.get(layer) > scores.get(best) ? layer : best), null);
}

/** Sum of squared differences from the four neighbours around a point, in the green channel. */
async function detail(layer, point) {
  const { store } = view;
  const column = Math.min(Math.ceil(store.width / store.size) - 1, Math.max(0, Math.floor(point.x / store.size)));
  const row = Math.min(Math.ceil(store.height / store.size) - 1, Math.max(0, Math.floor(point.y / store.size)));
  const bitmap = await store.load(layer, 0, column, row);
  const side = Math.min(SIDE, bitmap.width, bitmap.height);
  const left = Math.min(bitmap.width - side, Math.max(0, Math.round(point.x - column * store.size - side / 2)));
  const top = Math.min(bitmap.height - side, Math.max(0, Math.round(point.y - row * store.size - side / 2)));
  const pad = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true });
  pad.drawImage(bitmap, left, top, side, side, 0, 0, side, side);
  const { data } = pad.getImageData(0, 0, side, side);
  const green = (x, y) => data[4 * (y * side + x) + 1];
  let sum = 0;
  for (let y = 1; y < side - 1; y += 1) {
    for (let x = 1; x < side - 1; x += 1) {
      sum += (4 * green(x, y) - green(x - 1, y) - green(x + 1, y) - green(x, y - 1) - green(x, y + 1)) ** 2;
    }
  }
  return sum;
}
