// Tiles of the layers of one result: asks for those in view first, keeps a bounded number, replaces what strokes changed.

import { readTile, tileUrl } from "./api.js";

const AT_ONCE = 5; // browsers open six connections to one host; one is left for everything else
const MOST_TRIES = 5;
const FIRST_PAUSE = 400; // milliseconds; doubled with each try
const KEPT = 700; // 256 x 256 x 4 bytes each: 180 MB at most

/** Whether strokes change the pixels of a layer; those of other results do so only between two openings. */
const followsStrokes = (layer) => layer === "result" || layer.startsWith("difference-") || layer.startsWith("retouched-");

export class TileStore {
  /** `changed` is called when a tile arrived; `failed` with the sentence of the first failure. */
  constructor(job, { changed, failed }) {
    this.id = job.id;
    this.width = job.result.width;
    this.height = job.result.height;
    this.size = job.result.tile_size;
    this.levels = job.result.levels;
    // Of the run: frames and maps never change within it, unless channels are looked at in another way.
    this.first = Math.max(job.result.first_revision, job.result.shown_since ?? 0);
    this.base = this.latest = job.result.revision;
    this.edits = []; // { revision, area } of every stroke, undo and redo since the page was opened
    this.tiles = new Map(); // key -> { bitmap, revision }, least recently drawn first
    this.asked = new Map(); // key -> AbortController of a request under way
    this.wanted = new Map(); // key -> { layer, level, column, row, revision }: what the last drawing missed
    this.failures = new Map(); // key -> { count, again: when to ask again }
    this.changed = changed;
    this.failed = failed;
  }

  /** Forgets everything and stops all requests. */
  close() {
    for (const request of this.asked.values()) request.abort();
    for (const { bitmap } of this.tiles.values()) bitmap.close();
    this.tiles.clear();
    this.wanted.clear();
    this.changed = () => {};
  }

  /** From now on tiles under the area are asked for with this revision; the old ones are drawn until the new arrive. */
  edit(revision, area) {
    // A revision that was left out is a change that somebody else made, nobody here knows where.
    const isNext = revision <= this.latest + 1;
    this.edits.push({ revision, area: isNext ? area : [0, 0, this.width, this.height] });
    this.latest = Math.max(this.latest, revision);
    return isNext;
  }

  /** All layers are shown in another way since this revision. */
  lookAnew(revision) {
    this.first = revision;
    this.edit(revision, [0, 0, this.width, this.height]);
  }

  /** Takes the revision that the server names; one that is newer than all edits here was made in another window. */
  follow(revision) {
    if (revision > this.latest) this.edit(revision, [0, 0, this.width, this.height]);
  }

  /** Asks again for what could not be had, because the server is back. */
  retry() {
    this.failures.clear();
    this.changed();
  }

  /** The area of a tile in pixels of the result: [left, top, right, bottom]. */
  areaOf(level, column, row) {
    const span = this.size * 2 ** level;
    return [column * span, row * span, Math.min(this.width, (column + 1) * span), Math.min(this.height, (row + 1) * span)];
  }

  revisionOf(layer, level, column, row) {
    if (!followsStrokes(layer)) return this.first;
    const [left, top, right, bottom] = this.areaOf(level, column, row);
    const margin = 2 ** level; // a reduced pixel at the edge gathers its neighbours
    for (let number = this.edits.length - 1; number >= 0; number -= 1) {
      const { revision, area } = this.edits[number];
      if (area[0] < right + margin && area[2] > left - margin && area[1] < bottom + margin && area[3] > top - margin) return revision;
    }
    return this.base;
  }

  /** Where a tile is to be had. */
  urlOf(layer, level, column, row, revision) {
    return tileUrl(this.id, layer, level, column, row, revision);
  }

  /** The bitmap of a tile, or null; a tile that is missing or out of date is asked for. */
  get(layer, level, column, row) {
    const key = `${layer}/${level}/${column}/${row}`;
    const tile = this.tiles.get(key);
    const revision = this.revisionOf(layer, level, column, row);
    if (tile) {
      this.tiles.delete(key);
      this.tiles.set(key, tile);
    }
    if (!tile || tile.revision < revision) this.wanted.set(key, { layer, level, column, row, revision });
    return tile?.bitmap ?? null;
  }

  /** The bitmap if it is here, without asking for it. */
  peek(layer, level, column, row) {
    return this.tiles.get(`${layer}/${level}/${column}/${row}`)?.bitmap ?? null;
  }

  /** Whether every tile of a level under the area has been replaced since the given revision. */
  isFresh(layer, level, area, revision) {
    const span = this.size * 2 ** level;
    for (let row = Math.max(0, Math.floor(area[1] / span)); row * span < Math.min(area[3], this.height); row += 1) {
      for (let column = Math.max(0, Math.floor(area[0] / span)); column * span < Math.min(area[2], this.width); column += 1) {
        const tile = this.tiles.get(`${layer}/${level}/${column}/${row}`);
        if (tile && tile.revision < revision) return false;
      }
    }
    return true;
  }

  /** Called before each drawing: what is still missing is named again while drawing. */
  beginDrawing() {
    this.wanted.clear();
  }

  /** Called after each drawing: stops requests for tiles that left the view and asks for the missing ones. */
  endDrawing() {
    for (const [key, request] of this.asked) {
      if (!this.wanted.has(key)) {
        request.abort();
        this.asked.delete(key);
      }
    }
    for (const [key, tile] of this.wanted) {
      if (this.asked.size >= AT_ONCE) break;
      if (!this.asked.has(key) && this.mayAsk(key)) this.ask(key, tile);
    }
    for (const [key, { bitmap }] of this.tiles) {
      if (this.tiles.size <= KEPT) break;
      bitmap.close();
      this.tiles.delete(key);
    }
  }

  mayAsk(key) {
    const failure = this.failures.get(key);
    return !failure || (failure.count < MOST_TRIES && performance.now() >= failure.again);
  }

  get isComplete() {
    return this.wanted.size === 0;
  }

  async ask(key, { layer, level, column, row, revision }) {
    const request = new AbortController();
    this.asked.set(key, request);
    try {
      const bitmap = await readTile(this.urlOf(layer, level, column, row, revision), request.signal);
      this.tiles.get(key)?.bitmap.close();
      this.tiles.set(key, { bitmap, revision });
      this.failures.delete(key);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.noteFailure(key, problem);
    } finally {
      if (this.asked.get(key) === request) this.asked.delete(key);
    }
    this.changed();
  }

  /** A server that is busy or being started again is asked again, each time later; one that is gone when it is back. */
  noteFailure(key, problem) {
    const count = problem.status === 0 ? MOST_TRIES : (this.failures.get(key)?.count ?? 0) + 1;
    const pause = FIRST_PAUSE * 2 ** (count - 1);
    this.failures.set(key, { count, again: performance.now() + pause });
    if (count < MOST_TRIES) setTimeout(() => this.changed(), pause + 20);
    else if (problem.status !== 0) this.failed(problem.message);
  }

  /** One tile as a promise, for those who need pixels and not a view. */
  async load(layer, level, column, row) {
    const revision = this.revisionOf(layer, level, column, row);
    return this.peek(layer, level, column, row) ?? readTile(this.urlOf(layer, level, column, row, revision));
  }
}
