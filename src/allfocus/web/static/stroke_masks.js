// Masks of strokes that are laid down dab by dab, in tiles that grow with the stroke and are drawn at any zoom.

import { toScreen } from "./camera.js";
import { DabLine, TILE_SIDE, maskLevel, raiseMask } from "./dabs.js";
import { guideColour, guideTile } from "./guides.js";
import { view } from "./viewer.js";

const spare = []; // tiles that are not needed any more; a brush that hovers would else make new ones with each drawing
const MOST_SPARE = 36;

function newTile(column, row, level) {
  const { width, height } = view.store;
  const tile = spare.pop() ?? { context: new OffscreenCanvas(TILE_SIDE, TILE_SIDE).getContext("2d"), values: new Float64Array(TILE_SIDE * TILE_SIDE) };
  const size = (whole, place) => Math.min(TILE_SIDE, Math.ceil(whole / 2 ** level) - place * TILE_SIDE);
  return Object.assign(tile, { column, row, width: size(width, column), height: size(height, row), applied: 0 });
}

class StrokeMask {
  constructor(stroke) {
    this.stroke = stroke;
    this.level = maskLevel(stroke.radius, view.store.levels);
    this.line = new DabLine(stroke);
    this.noted = 0; // dabs whose tiles there are
    this.tiles = new Map();
  }

  /** Gives the tiles back for the next mask. */
  close() {
    for (const tile of this.tiles.values()) {
      if (spare.length >= MOST_SPARE) break;
      tile.values.fill(0);
      tile.context.clearRect(0, 0, TILE_SIDE, TILE_SIDE);
      spare.push(tile);
    }
    this.tiles.clear();
  }

  /** Takes in the points that are new, as far as the colours of the source are here. */
  update() {
    const dabs = this.line.extend();
    for (; this.noted < dabs.length; this.noted += 1) this.noteTiles(dabs[this.noted]);
    for (const tile of this.tiles.values()) this.raise(tile, dabs);
  }

  noteTiles([x, y, radius]) {
    const span = TILE_SIDE * 2 ** this.level;
    const { width, height } = view.store;
    const last = { column: Math.ceil(width / span) - 1, row: Math.ceil(height / span) - 1 };
    for (let row = Math.max(0, Math.floor((y - radius) / span)); row <= Math.min(last.row, Math.floor((y + radius) / span)); row += 1) {
      for (let column = Math.max(0, Math.floor((x - radius) / span)); column <= Math.min(last.column, Math.floor((x + radius) / span)); column += 1) {
        const key = `${column}/${row}`;
        if (!this.tiles.has(key)) this.tiles.set(key, newTile(column, row, this.level));
      }
    }
  }

  /** Applies the dabs that a tile has not seen, in their order; waits at the first whose colours are missing. */
  raise(tile, dabs) {
    if (tile.applied === dabs.length) return;
    const { source, tolerance = null } = this.stroke;
    const colours = tolerance === null ? null : guideTile(source, this.level, tile.column, tile.row);
    if (tolerance !== null && !colours) return;
    let changed = null;
    for (; tile.applied < dabs.length; tile.applied += 1) {
      const dab = dabs[tile.applied];
      if (!this.meets(tile, dab)) continue;
      const middle = colours && guideColour(source, this.level, dab[0] / 2 ** this.level, dab[1] / 2 ** this.level);
      if (colours && !middle) break;
      const part = raiseMask(tile, this.level, dab, this.stroke, colours?.data, middle);
      if (part) changed = changed ? [Math.min(changed[0], part[0]), Math.min(changed[1], part[1]), Math.max(changed[2], part[2]), Math.max(changed[3], part[3])] : part;
    }
    if (changed) show(tile, changed);
  }

  meets({ column, row }, [x, y, radius]) {
    const span = TILE_SIDE * 2 ** this.level;
    return x + radius > column * span && x - radius < (column + 1) * span && y + radius > row * span && y - radius < (row + 1) * span;
  }

  draw(target, pane) {
    target.imageSmoothingEnabled = true;
    for (const { column, row, width, height, context } of this.tiles.values()) {
      const area = view.store.areaOf(this.level, column, row);
      const from = toScreen(view.camera, pane, { x: area[0], y: area[1] });
      const to = toScreen(view.camera, pane, { x: area[2], y: area[3] });
      const [left, top] = [Math.round(from.x), Math.round(from.y)];
      target.drawImage(context.canvas, 0, 0, width, height, left, top, Math.round(to.x) - left, Math.round(to.y) - top);
    }
  }
}

/** Puts the values of a part of a tile on its canvas, as opacity. */
function show(tile, [left, top, right, bottom]) {
  const image = tile.context.createImageData(right - left, bottom - top);
  let place = 3;
  for (let row = top; row < bottom; row += 1) {
    for (let column = left; column < right; column += 1) {
      image.data[place] = Math.round(255 * tile.values[row * tile.width + column]);
      place += 4;
    }
  }
  tile.context.putImageData(image, left, top);
}

const masks = new WeakMap(); // stroke -> its mask, as long as somebody has the stroke

/** Draws the mask of a stroke as far as it is known. */
export function drawDabs(target, pane, stroke) {
  if (!masks.has(stroke)) masks.set(stroke, new StrokeMask(stroke));
  const mask = masks.get(stroke);
  mask.update();
  mask.draw(target, pane);
}

/** The values of a mask as { level, tiles }, for those who compare. */
export function maskOf(stroke) {
  const mask = new StrokeMask(stroke);
  mask.update();
  return { level: mask.level, tiles: [...mask.tiles.values()], isComplete: [...mask.tiles.values()].every(({ applied }) => applied === mask.line.dabs.length) };
}

/** A stroke will not be drawn any more. */
export function forgetDabs(stroke) {
  masks.get(stroke)?.close();
  masks.delete(stroke);
}
