// Brush strokes as they will look, drawn locally: the source's tiles through the same soft mask that the server uses.

import { toScreen } from "./camera.js";
import { isDabbed, maskLevel } from "./dabs.js";
import { drawDabs } from "./stroke_masks.js";
import { drawLayer, view } from "./viewer.js";

const RINGS = 12;
const MIXING = { lighten: "lighten", darken: "darken" }; // by channel, where the server compares greys: only a preview
const mask = document.createElement("canvas").getContext("2d");
const cutout = document.createElement("canvas").getContext("2d");
const gained = document.createElement("canvas").getContext("2d");

const smooth = (share) => share * share * (3 - 2 * share);

/** The smallest box around a stroke: [left, top, right, bottom], in the units of its points. */
export function areaOfStroke(stroke) {
  const { points } = stroke;
  const radius = stroke.radius + (isDabbed(stroke) ? 2 ** maskLevel(stroke.radius, view.store.levels) : 0);
  const across = points.map((point) => point[0]);
  const down = points.map((point) => point[1]);
  return [Math.min(...across) - radius, Math.min(...down) - radius, Math.max(...across) + radius, Math.max(...down) + radius];
}

function growTo(target, width, height) {
  if (target.canvas.width < width) target.canvas.width = Math.ceil(width * 1.2);
  if (target.canvas.height < height) target.canvas.height = Math.ceil(height * 1.2);
  target.clearRect(0, 0, width, height);
}

/** Draws a stroke from its source over the result's pane. */
export function drawStroke(context, pane, stroke) {
  const area = areaOfStroke(stroke);
  const from = toScreen(view.camera, pane, { x: area[0], y: area[1] });
  const to = toScreen(view.camera, pane, { x: area[2], y: area[3] });
  const [clipLeft, clipTop, clipWidth, clipHeight] = pane.clip ?? [pane.left, pane.top, pane.width, pane.height];
  const left = Math.max(Math.floor(from.x) - 1, clipLeft);
  const top = Math.max(Math.floor(from.y) - 1, clipTop);
  const width = Math.min(Math.ceil(to.x) + 1, clipLeft + clipWidth) - left;
  const height = Math.min(Math.ceil(to.y) + 1, clipTop + clipHeight) - top;
  if (width <= 0 || height <= 0) return;
  const moved = { ...pane, left: pane.left - left, top: pane.top - top, clip: null };
  growTo(mask, width, height);
  growTo(cutout, width, height);
  if (isDabbed(stroke)) drawDabs(mask, moved, stroke);
  else drawMask(moved, stroke);
  drawLayer(cutout, stroke.source, moved, [0, 0, width, height]);
  applyLight(width, height, stroke.gain ?? 1, stroke.tint?.length ? stroke.tint : [1, 1, 1]);
  cutout.globalCompositeOperation = "destination-in";
  // The whole mask canvas: "destination-in" clears only what it covers.
  cutout.drawImage(mask.canvas, 0, 0);
  cutout.globalCompositeOperation = "source-over";
  context.globalAlpha = stroke.opacity ?? 1;
  context.globalCompositeOperation = MIXING[stroke.mode] ?? "source-over";
  context.drawImage(cutout.canvas, 0, 0, width, height, left, top, width, height);
  context.globalAlpha = 1;
  context.globalCompositeOperation = "source-over";
}

function keepCutout(width, height) {
  gained.canvas.width = width;
  gained.canvas.height = height;
  gained.drawImage(cutout.canvas, 0, 0, width, height, 0, 0, width, height);
}

/**
 * Multiplies what was cut out, as the server does: colours by a colour that is white where most is left, then all darker
 * by black on top, or brighter by adding it to itself.
 */
function applyLight(width, height, wanted, tint) {
  const most = Math.max(...tint);
  const gain = wanted * most;
  if (Math.min(...tint) < most) {
    keepCutout(width, height);
    cutout.globalCompositeOperation = "multiply";
    cutout.fillStyle = `rgb(${tint.map((factor) => (255 * factor) / most).join(" ")})`;
    cutout.fillRect(0, 0, width, height);
    cutout.globalCompositeOperation = "destination-in"; // not beside the picture
    cutout.drawImage(gained.canvas, 0, 0);
  }
  if (gain < 1) {
    cutout.globalCompositeOperation = "source-atop";
    cutout.fillStyle = `rgb(0 0 0 / ${1 - gain})`;
    cutout.fillRect(0, 0, width, height);
  }
  if (gain > 1) {
    keepCutout(width, height);
    cutout.globalCompositeOperation = "lighter";
    for (let rest = gain - 1; rest > 0; rest -= 1) {
      cutout.globalAlpha = Math.min(1, rest);
      cutout.drawImage(gained.canvas, 0, 0);
    }
    cutout.globalAlpha = 1;
  }
  cutout.globalCompositeOperation = "source-over";
}

/** Nested lines from the rim to the core; each adds what the alpha of its ring lacks, as a path adds to itself only once. */
function drawMask(pane, { points, radius, hardness }) {
  const rings = hardness >= 0.999 ? 1 : RINGS;
  const core = radius * hardness;
  const places = points.map(([x, y]) => toScreen(view.camera, pane, { x, y }));
  let reached = 0;
  for (let ring = 1; ring <= rings; ring += 1) {
    const alpha = smooth(ring / rings);
    mask.globalAlpha = reached >= 1 ? 1 : (alpha - reached) / (1 - reached);
    reached = alpha;
    const reach = (rings === 1 ? radius : radius - ((radius - core) * ring) / rings) * view.camera.scale;
    drawPath(places, Math.max(0.5, reach));
  }
  mask.globalAlpha = 1;
}

function drawPath(places, reach) {
  mask.beginPath();
  if (places.length === 1) {
    mask.arc(places[0].x, places[0].y, reach, 0, 2 * Math.PI);
    mask.fill();
    return;
  }
  mask.lineWidth = 2 * reach;
  mask.lineCap = mask.lineJoin = "round";
  mask.moveTo(places[0].x, places[0].y);
  for (const place of places.slice(1)) mask.lineTo(place.x, place.y);
  mask.stroke();
}

/** The rim of the brush and its hard core, dark on light and light on dark. */
export function drawRim(context, pane, { points, radius, hardness }) {
  const place = toScreen(view.camera, pane, { x: points[0][0], y: points[0][1] });
  const reach = Math.max(2, radius * view.camera.scale);
  const circle = (size, colour, width, dash = []) => {
    context.beginPath();
    context.setLineDash(dash);
    context.arc(place.x, place.y, size, 0, 2 * Math.PI);
    context.strokeStyle = colour;
    context.lineWidth = width * (window.devicePixelRatio || 1);
    context.stroke();
  };
  circle(reach, "rgba(0, 0, 0, 0.65)", 3);
  circle(reach, "rgba(255, 255, 255, 0.95)", 1.25);
  if (hardness > 0.02 && hardness < 0.98 && reach > 14) circle(reach * hardness, "rgba(255, 255, 255, 0.6)", 1, [4, 4]);
  context.setLineDash([]);
}
