// How much brighter or darker the result is than a source around a place: what the brush matches.

import { bestLevel, view } from "./viewer.js";

const SIDE = 48; // pixels across which the surroundings are looked at
const LEAST = 0.25;
const MOST = 4;
const scratch = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });

/** The ring between one and two radii around a point as RGBA, from tiles that are here; null when one is missing. */
function surroundings(layer, level, point, radius) {
  const { store } = view;
  const span = store.size * 2 ** level;
  const scale = SIDE / (4 * radius);
  const [left, top] = [point.x - 2 * radius, point.y - 2 * radius];
  const columns = [Math.max(0, Math.floor(left / span)), Math.min(Math.ceil(store.width / span) - 1, Math.floor((left + 4 * radius) / span))];
  const rows = [Math.max(0, Math.floor(top / span)), Math.min(Math.ceil(store.height / span) - 1, Math.floor((top + 4 * radius) / span))];
  scratch.clearRect(0, 0, SIDE, SIDE);
  for (let row = rows[0]; row <= rows[1]; row += 1) {
    for (let column = columns[0]; column <= columns[1]; column += 1) {
      const bitmap = store.peek(layer, level, column, row);
      if (!bitmap) return null;
      const area = store.areaOf(level, column, row);
      scratch.drawImage(bitmap, (area[0] - left) * scale, (area[1] - top) * scale, (area[2] - area[0]) * scale, (area[3] - area[1]) * scale);
    }
  }
  return scratch.getImageData(0, 0, SIDE, SIDE).data;
}

function brightnessOf(data) {
  let sum = 0;
  let count = 0;
  for (let row = 0; row < SIDE; row += 1) {
    for (let column = 0; column < SIDE; column += 1) {
      const away = Math.hypot(column + 0.5 - SIDE / 2, row + 0.5 - SIDE / 2) / (SIDE / 4);
      const place = 4 * (row * SIDE + column);
      if (away < 1 || away > 2 || data[place + 3] < 255) continue;
      sum += 0.299 * data[place] + 0.587 * data[place + 1] + 0.114 * data[place + 2];
      count += 1;
    }
  }
  return count ? sum / count : 0;
}

/** What the source is to be multiplied with around a point so that it is as bright as the result; 1 when unknown. */
export function matchingGain(point, radius, source) {
  for (let level = bestLevel(); level < view.store.levels; level += 1) {
    const there = surroundings("result", level, point, radius);
    const here = there && surroundings(source, level, point, radius);
    if (!here) continue;
    const gain = brightnessOf(there) / Math.max(1, brightnessOf(here));
    return Math.round(1000 * Math.min(MOST, Math.max(LEAST, gain))) / 1000;
  }
  return 1;
}
