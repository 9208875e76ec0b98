// Tiles of the finished picture: cropped, turned and toned by the server, so its size is another than that of the result.

import { finishedTileUrl } from "./api.js";
import { TileStore } from "./tiles.js";

function levelsOf(width, height, size) {
  let levels = 1;
  for (let side = Math.max(width, height); side > size; side = Math.ceil(side / 2)) levels += 1;
  return levels;
}

export class FinishedStore extends TileStore {
  constructor(job, listeners) {
    const [width, height] = job.result.finished_size;
    super({ ...job, result: { ...job.result, width, height, levels: levelsOf(width, height, job.result.tile_size) } }, listeners);
  }

  /** Whether it still has the size of the finished picture. */
  fits({ result }) {
    return result.finished_size[0] === this.width && result.finished_size[1] === this.height;
  }

  /** Every change is one of all tiles: a spot may lie anywhere after a turn. */
  edit(revision) {
    return super.edit(revision, [0, 0, this.width, this.height]);
  }

  revisionOf() {
    return this.latest;
  }

  urlOf(_layer, level, column, row, revision) {
    return finishedTileUrl(this.id, level, column, row, revision);
  }

  /** Other layers lie on another grid. */
  get(layer, ...place) {
    return layer === "finished" ? super.get(layer, ...place) : null;
  }
}
