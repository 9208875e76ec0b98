// Smoothed tiles of the layers that the brush paints from, as plain numbers: by them it stays within one thing.

import { guideUrl, readTile } from "./api.js";
import { TILE_SIDE } from "./dabs.js";
import { on } from "./state.js";
import { invalidate, view } from "./viewer.js";

const KEPT = 160; // 256 x 256 x 4 bytes each: 40 MB at most
const PAUSE = 2000; // milliseconds until a tile that could not be had is asked for again
const tiles = new Map(); // key -> { data, width, height }, or null while it is on its way; least recently used first
const reader = new OffscreenCanvas(TILE_SIDE, TILE_SIDE).getContext("2d", { willReadFrequently: true });

async function ask(key, url) {
  tiles.set(key, null);
  try {
    const bitmap = await readTile(url);
    const { width, height } = bitmap;
    reader.drawImage(bitmap, 0, 0);
    bitmap.close();
    const { data } = reader.getImageData(0, 0, width, height);
    if (tiles.has(key)) tiles.set(key, { data, width, height });
    invalidate();
  } catch {
    setTimeout(() => tiles.delete(key) && invalidate(), PAUSE);
  }
}

/** The tile as { data (RGBA), width, height }, or null until it is here. */
export function guideTile(layer, level, column, row) {
  const key = `${layer}/${level}/${column}/${row}`;
  if (!tiles.has(key)) {
    ask(key, guideUrl(view.store.id, layer, level, column, row, view.store.first));
    return null;
  }
  const tile = tiles.get(key);
  tiles.delete(key);
  tiles.set(key, tile);
  if (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
  return tile;
}

/** The colour of the pixel of a level under a point, or of the nearest at the edge; null until it is here. */
export function guideColour(layer, level, x, y) {
  const { width, height } = view.store;
  const column = Math.min(Math.max(0, Math.floor(x)), Math.ceil(width / 2 ** level) - 1);
  const row = Math.min(Math.max(0, Math.floor(y)), Math.ceil(height / 2 ** level) - 1);
  const tile = guideTile(layer, level, Math.floor(column / TILE_SIDE), Math.floor(row / TILE_SIDE));
  if (!tile) return null;
  const place = 4 * ((row % TILE_SIDE) * tile.width + (column % TILE_SIDE));
  return tile.data.subarray(place, place + 3);
}

on("result", () => tiles.clear());
