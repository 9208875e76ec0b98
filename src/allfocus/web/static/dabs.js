// Strokes laid down dab by dab: what dabs.py of the server does, operation by operation, on the same tiles.

export const TILE_SIDE = 256;
const MASK_RADIUS = 64;
const SPACING = 0.25;
const CLOSEST = 0.5;
const SMALLEST = 0.1;

/** Whether a stroke needs more than the distance to its line. */
export const isDabbed = ({ flow = 1, tolerance = null, pen = "none" }) => flow < 1 || tolerance !== null || pen !== "none";

/** The level on which the mask of a brush is made. */
export function maskLevel(radius, levels) {
  let level = 0;
  while (radius > MASK_RADIUS * 2 ** level && level < levels - 1) level += 1;
  return level;
}

/** The dabs of a stroke that may grow: those of more points begin with those of fewer. */
export class DabLine {
  constructor(stroke) {
    this.stroke = stroke;
    this.dabs = []; // [x, y, radius, how much it may take at most]
    this.used = 0;
    this.left = 0;
  }

  /** Places the dabs of the points that are new. */
  extend() {
    const { points, pressures = [] } = this.stroke;
    const pressureAt = (number) => pressures[number] ?? 1;
    for (; this.used < points.length; this.used += 1) {
      const [x, y] = points[this.used];
      const pressure = pressureAt(this.used);
      if (this.used === 0) {
        this.left = this.place(x, y, pressure);
        continue;
      }
      const [fromX, fromY] = points[this.used - 1];
      const from = pressureAt(this.used - 1);
      const across = x - fromX;
      const down = y - fromY;
      const length = Math.sqrt(across * across + down * down);
      let gone = 0;
      while (this.left <= length - gone) {
        gone += this.left;
        const share = gone / length;
        this.left = this.place(fromX + share * across, fromY + share * down, from + share * (pressure - from));
      }
      this.left -= length - gone;
    }
    return this.dabs;
  }

  place(x, y, pressure) {
    const { radius, pen = "none" } = this.stroke;
    const own = pen === "size" || pen === "both" ? radius * (SMALLEST + (1 - SMALLEST) * pressure) : radius;
    this.dabs.push([x, y, own, pen === "opacity" || pen === "both" ? pressure : 1]);
    return Math.max(own * SPACING, CLOSEST);
  }
}

/** 1 up to the core, 0 from the radius on, smooth between them. */
function fallOff(distance, radius, hardness) {
  const core = radius * hardness;
  if (core >= radius) return distance <= radius ? 1 : 0;
  const t = Math.min(1, Math.max(0, (distance - core) / (radius - core)));
  return 1 - t * t * (3 - 2 * t);
}

/**
 * Raises a tile of the mask by one dab.
 *
 * `tile` is { column, row, width, height, values }; `colours` the smoothed tile of the source as RGBA and `middle` its
 * colour under the middle of the dab, both null for a stroke without a tolerance. Gives the part of the tile that may
 * have changed as [left, top, right, bottom], or null.
 */
export function raiseMask(tile, level, dab, { hardness, flow = 1, tolerance = null }, colours, middle) {
  const scale = 2 ** level;
  const [x, y, radius] = [dab[0] / scale, dab[1] / scale, dab[2] / scale];
  const most = dab[3];
  const originX = tile.column * TILE_SIDE;
  const originY = tile.row * TILE_SIDE;
  const left = Math.max(0, Math.ceil(x - radius - 0.5) - originX);
  const right = Math.min(tile.width, Math.floor(x + radius - 0.5) + 1 - originX);
  const top = Math.max(0, Math.ceil(y - radius - 0.5) - originY);
  const bottom = Math.min(tile.height, Math.floor(y + radius - 0.5) + 1 - originY);
  if (left >= right || top >= bottom) return null;
  for (let row = top; row < bottom; row += 1) {
    const dy = row + originY + 0.5 - y;
    for (let column = left; column < right; column += 1) {
      const dx = column + originX + 0.5 - x;
      let wanted = most * fallOff(Math.sqrt(dx * dx + dy * dy), radius, hardness);
      const place = row * tile.width + column;
      if (wanted <= tile.values[place]) continue;
      if (colours) wanted *= likeness(colours, place * 4, middle, tolerance);
      const missing = wanted - tile.values[place];
      if (missing > 0) tile.values[place] += flow * missing;
    }
  }
  return [left, top, right, bottom];
}

/** 1 for colours up to half the tolerance from the one in the middle, 0 from the tolerance on. */
function likeness(colours, place, middle, tolerance) {
  const red = colours[place] - middle[0];
  const green = colours[place + 1] - middle[1];
  const blue = colours[place + 2] - middle[2];
  const distance = Math.sqrt((red * red + green * green + blue * blue) / 3) / 255;
  return fallOff(distance, tolerance, 0.5);
}
