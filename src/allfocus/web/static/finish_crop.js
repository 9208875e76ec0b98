// Crop, straighten and turn: a frame over the picture with handles, and the same in numbers.

import { byId, element, icon } from "./elements.js";
import { change, finish } from "./finish.js";
import { toPicture, toScreen } from "./camera.js";
import { setBrush, setView, on, phase, state } from "./state.js";
import { decimal, phrase } from "./texts.js";
import { canvas, panes, screenPoint, view } from "./viewer.js";

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = [["", phrase("finish.any-shape")], ["original", phrase("finish.as-picture")], ["1", "1 : 1"], ["1.5", "3 : 2"], ["1.3333", "4 : 3"], ["1.7778", "16 : 9"]];
const HANDLES = [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]];
const SMALLEST = 8;
const NUMBERS = [["left", phrase("finish.from-left")], ["top", phrase("finish.from-top")], ["width", phrase("finish.width")], ["height", phrase("relief.height")]];

let isCropping = false;
let drag = null; // { hand, start, crop } while a handle or the frame is held

const size = () => state.job.result;

/** The kept part before it is turned; what the server chooses when nobody did. */
function rectangle() {
  if (finish.current.crop) return finish.current.crop;
  const [wide, high] = finish.preview?.finished_size ?? size().finished_size;
  const [width, height] = finish.current.turns % 2 ? [high, wide] : [wide, high];
  return { left: Math.floor((size().width - width) / 2), top: Math.floor((size().height - height) / 2), width, height };
}

const axes = (angle = finish.current.angle) => [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];

/** A point of the frame in the picture: -1 and 1 are its edges. */
function pointOf({ left, top, width, height }, across, down, angle = finish.current.angle) {
  const [cosine, sine] = axes(angle);
  const [x, y] = [(across * width) / 2, (down * height) / 2];
  return { x: left + width / 2 + cosine * x + sine * y, y: top + height / 2 - sine * x + cosine * y };
}

const isInside = (crop, angle) =>
  crop.left >= 0 && crop.top >= 0 && crop.width >= 1 && crop.height >= 1 &&
  [[-1, -1], [1, -1], [-1, 1], [1, 1]].every(([across, down]) => {
    const { x, y } = pointOf(crop, across, down, angle);
    return x >= 0 && y >= 0 && x <= size().width && y <= size().height;
  });

/** The largest crop about the same middle that lies inside the picture. */
function shrink(crop, angle) {
  const middle = { x: crop.left + crop.width / 2, y: crop.top + crop.height / 2 };
  let share = 1;
  for (const [across, down] of [[-1, -1], [1, -1], [-1, 1], [1, 1]]) {
    const point = pointOf(crop, across, down, angle);
    for (const [from, to, most] of [[middle.x, point.x, size().width], [middle.y, point.y, size().height]]) {
      if (to < 0) share = Math.min(share, from / (from - to));
      if (to > most) share = Math.min(share, (most - from) / (to - from));
    }
  }
  for (let width = Math.floor(crop.width * share), height = Math.floor(crop.height * share); width > 0 && height > 0; width -= 1, height -= 1) {
    const next = { left: Math.round(middle.x - width / 2), top: Math.round(middle.y - height / 2), width, height };
    if (isInside(next, angle)) return next;
  }
  return null;
}

function setAngle(angle, rest) {
  const { crop } = finish.current;
  change({ angle, ...(crop && !isInside(crop, angle) && { crop: shrink(crop, angle) }) }, { rest });
}

function turn(step) {
  change({ turns: (finish.current.turns + step + 4) % 4 }, { rest: true });
}

function ratio() {
  const chosen = byId("crop-shape").value;
  return chosen === "original" ? size().width / size().height : Number(chosen) || null;
}

function setNumber(name, event) {
  const value = Math.round(Number(event.target.value));
  const crop = { ...rectangle(), [name]: value };
  if (Number.isFinite(value) && isInside(crop)) change({ crop }, { rest: true });
  else drawCrop(); // back to what it was
}

function toggle(wanted = !isCropping) {
  isCropping = wanted;
  if (wanted) {
    setBrush({ on: false });
    if (state.view !== "result") setView("result");
  }
  drawCrop();
}

function setShape() {
  const wanted = ratio();
  if (!wanted) return;
  const crop = rectangle();
  const width = Math.min(crop.width, crop.height * wanted);
  const next = { ...crop, width: Math.max(1, Math.round(width)), height: Math.max(1, Math.round(width / wanted)) };
  next.left = Math.round(crop.left + (crop.width - next.width) / 2);
  next.top = Math.round(crop.top + (crop.height - next.height) / 2);
  const fitting = isInside(next) ? next : shrink(next);
  if (fitting) change({ crop: fitting }, { rest: true });
}

export function buildCrop() {
  return [
    element("button.toggle.wide", { id: "crop", "aria-pressed": "false", onclick: () => toggle() }, phrase("finish.crop")),
    element("label.field", { for: "crop-shape" }, phrase("finish.shape"), element("select", { id: "crop-shape", onchange: setShape }, SHAPES.map(([value, title]) => element("option", { value }, title)))),
    element(
      "div.crop-numbers",
      {},
      NUMBERS.map(([name, title]) => element("label", {}, title, element("input", { type: "number", id: `crop-${name}`, min: "0", step: "1", onchange: (event) => setNumber(name, event) }))),
    ),
    element(
      "div.field.range",
      {},
      element("label", { for: "finish-angle" }, phrase("finish.straighten"), element("output", { id: "finish-angle-value", for: "finish-angle" })),
      element("input", { type: "range", id: "finish-angle", min: "-45", max: "45", step: "0.1", oninput: (event) => setAngle(Number(event.target.value), false), onchange: (event) => setAngle(Number(event.target.value), true), ondblclick: () => setAngle(0, true) }),
    ),
    element(
      "div.row",
      {},
      element("button.grow", { id: "turn-left", "aria-label": phrase("finish.turn-left"), onclick: () => turn(-1) }, icon("undo"), "90°"),
      element("button.grow", { id: "turn-right", "aria-label": phrase("finish.turn-right"), onclick: () => turn(1) }, icon("redo"), "90°"),
      element("button.grow", { id: "crop-reset", onclick: () => change({ crop: null, angle: 0, turns: 0 }, { rest: true }) }, phrase("finish.whole")),
    ),
  ];
}

export function drawCrop() {
  if (phase() !== "done" || !byId("crop")) return;
  byId("crop").setAttribute("aria-pressed", String(isCropping));
  const crop = rectangle();
  for (const [name] of NUMBERS) if (document.activeElement !== byId(`crop-${name}`)) byId(`crop-${name}`).value = crop[name];
  const { angle } = finish.current;
  byId("finish-angle").value = angle;
  byId("finish-angle-value").textContent = `${decimal(angle, 1)}°`;
  drawFrame();
}

// Over the picture ------------------------------------------------------------------------------------------------

function overlay() {
  const present = document.getElementById("crop-frame");
  if (present) return present;
  const make = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const made = make("svg", { id: "crop-frame", class: "crop-frame", "aria-hidden": "true" });
  made.append(
    make("path", { class: "crop-shade", "fill-rule": "evenodd" }),
    make("polygon", { class: "crop-edge", "data-hand": "0,0" }),
    ...HANDLES.map(([across, down]) => make("circle", { class: "crop-handle", r: "7", "data-hand": `${across},${down}` })),
  );
  canvas.after(made);
  made.addEventListener("pointerdown", begin);
  made.addEventListener("pointermove", move);
  made.addEventListener("pointerup", end);
  made.addEventListener("pointercancel", end);
  made.addEventListener("wheel", (event) => {
    event.preventDefault();
    canvas.dispatchEvent(new WheelEvent("wheel", event)); // zoom works over the frame too
  });
  return made;
}

function drawFrame() {
  const isSeen = phase() === "done" && view.store && document.body.dataset.tool === "finish" && state.view === "result" && (isCropping || finish.current.crop || finish.current.angle !== 0);
  const frame = overlay();
  frame.toggleAttribute("hidden", !isSeen);
  frame.classList.toggle("held", isCropping);
  if (!isSeen) return;
  const pane = panes()[0];
  const ratioOfDevice = canvas.width / canvas.getBoundingClientRect().width;
  const place = (point) => {
    const { x, y } = toScreen(view.camera, pane, point);
    return [x / ratioOfDevice, y / ratioOfDevice].map((value) => value.toFixed(1));
  };
  const crop = rectangle();
  const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([across, down]) => place(pointOf(crop, across, down)));
  const around = [[0, 0], [size().width, 0], [size().width, size().height], [0, size().height]].map(([x, y]) => place({ x, y }));
  const path = (points) => `M${points.map((point) => point.join(" ")).join("L")}Z`;
  frame.querySelector(".crop-shade").setAttribute("d", path(around) + path(corners));
  frame.querySelector(".crop-edge").setAttribute("points", corners.map((point) => point.join(",")).join(" "));
  frame.querySelectorAll(".crop-handle").forEach((node, number) => {
    const [x, y] = place(pointOf(crop, ...HANDLES[number]));
    node.setAttribute("cx", x);
    node.setAttribute("cy", y);
  });
}

const pictureOf = (event) => toPicture(view.camera, panes()[0], screenPoint(event));

function begin(event) {
  const hand = event.target.dataset?.hand;
  if (!hand || !isCropping) return;
  event.preventDefault();
  event.currentTarget.setPointerCapture(event.pointerId);
  drag = { hand: hand.split(",").map(Number), start: pictureOf(event), crop: rectangle() };
}

function move(event) {
  if (!drag) return;
  const next = drag.hand[0] || drag.hand[1] ? resized(pictureOf(event)) : moved(pictureOf(event));
  if (next && isInside(next)) change({ crop: next });
}

function end() {
  if (drag) change({}, { rest: true });
  drag = null;
}

function moved(point) {
  const { crop, start } = drag;
  const [x, y] = [Math.round(crop.left + point.x - start.x), Math.round(crop.top + point.y - start.y)];
  if (finish.current.angle !== 0) return { ...crop, left: x, top: y };
  return { ...crop, left: Math.min(size().width - crop.width, Math.max(0, x)), top: Math.min(size().height - crop.height, Math.max(0, y)) };
}

/** The edge or corner opposite to the handle stays where it is. */
function resized(point) {
  const { crop, hand } = drag;
  const held = finish.current.angle === 0 ? { x: Math.min(size().width, Math.max(0, point.x)), y: Math.min(size().height, Math.max(0, point.y)) } : point;
  const fixed = pointOf(crop, -hand[0], -hand[1]);
  const [cosine, sine] = axes();
  const [x, y] = [held.x - fixed.x, held.y - fixed.y];
  const across = Math.round((x * cosine - y * sine) * hand[0]); // along the axes of the frame
  const down = Math.round((x * sine + y * cosine) * hand[1]);
  let width = hand[0] ? Math.max(SMALLEST, across) : crop.width;
  let height = hand[1] ? Math.max(SMALLEST, down) : crop.height;
  const wanted = ratio();
  if (wanted && hand[0]) height = Math.max(1, Math.round(width / wanted));
  else if (wanted) width = Math.max(1, Math.round(height * wanted));
  const toMiddle = [(hand[0] * width) / 2, (hand[1] * height) / 2];
  const middle = { x: fixed.x + cosine * toMiddle[0] + sine * toMiddle[1], y: fixed.y - sine * toMiddle[0] + cosine * toMiddle[1] };
  return { left: Math.round(middle.x - width / 2), top: Math.round(middle.y - height / 2), width, height };
}

on("drawn tool", drawFrame);
on("result", () => toggle(false));
on("tool", (name) => name !== "finish" && isCropping && toggle(false));
