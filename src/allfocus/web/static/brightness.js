// How much brighter or darker the result is than a source around a line, and of what tint: what the brush matches.

import { bestLevel, view } from "./viewer.js";

const SIDE = 96; // pixels across which the surroundings are looked at
const LEAST = 0.25;
const MOST = 4;
const [LEAST_TINT, MOST_TINT] = [0.5, 2];
const NO_TINT = 0.004; // what nobody sees, and rounding to bytes makes of equal colours
const DARKEST = 4; // levels of 255; below them a colour says nothing about the light
const GREY = [0.299, 0.587, 0.114];
const scratch = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });

/** The square around a line of points that holds all within two radii of it. */
function squareAround(points, radius) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, top] = [Math.min(...xs) - 2 * radius, Math.min(...ys) - 2 * radius];
  return { left, top, side: Math.max(Math.max(...xs) - left, Math.max(...ys) - top) + 2 * radius };
}

/** Draws a layer within a square from tiles that are here; false when one is missing. */
function drawLayer(layer, level, { left, top, side }) {
  const { store } = view;
  const span = store.size * 2 ** level;
  const scale = SIDE / side;
  const within = (first, whole) => [Math.max(0, Math.floor(first / span)), Math.min(Math.ceil(whole / span) - 1, Math.floor((first + side) / span))];
  const [columns, rows] = [within(left, store.width), within(top, store.height)];
  scratch.globalCompositeOperation = "source-over";
  scratch.clearRect(0, 0, SIDE, SIDE);
  for (let row = rows[0]; row <= rows[1]; row += 1) {
    for (let column = columns[0]; column <= columns[1]; column += 1) {
      const bitmap = store.peek(layer, level, column, row);
      if (!bitmap) return false;
      const area = store.areaOf(level, column, row);
      scratch.drawImage(bitmap, (area[0] - left) * scale, (area[1] - top) * scale, (area[2] - area[0]) * scale, (area[3] - area[1]) * scale);
    }
  }
  return true;
}

/** Keeps ("destination-in") or takes away ("destination-out") what lies within a distance of a line. */
function cut(how, points, distance, { left, top, side }) {
  const scale = SIDE / side;
  const shape = new Path2D();
  for (const [place, [x, y]] of points.entries()) {
    const to = points[Math.min(place + 1, points.length - 1)];
    const [across, down] = [to[0] - x, to[1] - y];
    const angle = Math.atan2(down, across);
    const [fromX, fromY, toX, toY] = [x - left, y - top, to[0] - left, to[1] - top].map((value) => value * scale);
    const capsule = new Path2D();
    capsule.arc(fromX, fromY, distance * scale, angle + Math.PI / 2, angle - Math.PI / 2);
    capsule.arc(toX, toY, distance * scale, angle - Math.PI / 2, angle + Math.PI / 2);
    shape.addPath(capsule);
  }
  scratch.globalCompositeOperation = how;
  scratch.fill(shape, "nonzero");
}

/** The mean red, green and blue of a layer between one and two radii from a line; null when a tile is missing. */
function colourAround(layer, level, points, radius) {
  const square = squareAround(points, radius);
  if (!drawLayer(layer, level, square)) return null;
  cut("destination-in", points, 2 * radius, square);
  cut("destination-out", points, radius, square);
  const { data } = scratch.getImageData(0, 0, SIDE, SIDE);
  const sums = [0, 0, 0];
  let count = 0;
  for (let place = 0; place < data.length; place += 4) {
    if (data[place + 3] < 255) continue;
    for (let channel = 0; channel < 3; channel += 1) sums[channel] += data[place + channel];
    count += 1;
  }
  return sums.map((sum) => (count ? sum / count : 0));
}

const greyOf = (colour) => colour.reduce((sum, value, channel) => sum + GREY[channel] * value, 0);
const rounded = (value, least, most) => Math.round(1000 * Math.min(most, Math.max(least, value))) / 1000;

/** What each colour of the source is multiplied with besides the gain; empty for what nobody sees. */
function tintOf(there, here, gain) {
  const tint = there.map((value, channel) => (Math.min(value, here[channel]) < DARKEST ? 1 : rounded(value / here[channel] / gain, LEAST_TINT, MOST_TINT)));
  return tint.every((factor) => Math.abs(factor - 1) <= NO_TINT) ? [] : tint;
}

/**
 * What the source is to be multiplied with around a line so that it has the light of the result: as a whole (gain), and
 * red, green and blue (tint); no change when unknown.
 */
export function matchingLight(points, radius, source, inColours = true) {
  for (let level = bestLevel(); level < view.store.levels; level += 1) {
    const there = colourAround("result", level, points, radius);
    const here = there === null ? null : colourAround(source, level, points, radius);
    if (here === null) continue;
    const [wanted, found] = [greyOf(there), greyOf(here)];
    const gain = rounded(wanted || found ? wanted / Math.max(1, found) : 1, LEAST, MOST);
    return { gain, tint: inColours ? tintOf(there, here, gain) : [] };
  }
  return { gain: 1, tint: [] };
}
