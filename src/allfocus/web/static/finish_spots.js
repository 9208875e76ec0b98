// Dust spots and the grey picker: both wait for a click on the picture.

import * as api from "./api.js";
import { byId, element, icon, plural } from "./elements.js";
import { change, finish } from "./finish.js";
import { announce, attempt, say } from "./messages.js";
import { toPicture, toScreen } from "./camera.js";
import { on, phase, setBrush, setView, state } from "./state.js";
import { phrase } from "./texts.js";
import { canvas, invalidate, lookAt, paneAt, screenPoint, view } from "./viewer.js";

const FARTHEST_CLICK = 5; // CSS pixels; more is a drag, which moves the picture
const MOST = 200;

let mode = null; // "heal" or "grey"
let radius = 12;
let pressed = null;
let hover = null;

function setMode(next) {
  mode = next;
  if (mode) {
    setBrush({ on: false });
    if (state.view !== "result") setView("result");
    announce(mode === "heal" ? phrase("finish.click-spot") : phrase("finish.click-grey"));
  }
  canvas.classList.toggle("brushing", Boolean(mode) || state.brush.on);
  byId("finish-grey")?.setAttribute("aria-pressed", String(mode === "grey"));
  byId("heal")?.setAttribute("aria-pressed", String(mode === "heal"));
  hover = null;
  invalidate();
}

export const pickGrey = () => setMode(mode === "grey" ? null : "grey");

async function act(point) {
  const { width, height, id } = { ...state.job.result, id: state.job.id };
  if (point.x < 0 || point.y < 0 || point.x >= width || point.y >= height) return;
  if (mode === "heal") {
    if (finish.current.spots.length >= MOST) {
      say(phrase("finish.too-many", { count: MOST }), "bad");
      return;
    }
    const spot = { x: Math.round(point.x * 10) / 10, y: Math.round(point.y * 10) / 10, radius };
    change({ spots: [...finish.current.spots, spot] }, { rest: true });
    announce(plural(finish.current.spots.length, "spot"));
  } else {
    const found = await attempt(() => api.pickGrey(id, point.x, point.y));
    if (!found) return;
    change(found, { rest: true });
    setMode(null);
  }
}

function remove(place) {
  change({ spots: finish.current.spots.filter((_, number) => number !== place) }, { rest: true });
}

export function buildSpots() {
  return [
    element("button.toggle.wide", { id: "heal", "aria-pressed": "false", onclick: () => setMode(mode === "heal" ? null : "heal") }, icon("target"), phrase("finish.heal")),
    element(
      "div.field.range",
      {},
      element("label", { for: "spot-size" }, phrase("finish.radius"), element("output", { id: "spot-size-value", for: "spot-size" })),
      element("input", {
        type: "range", id: "spot-size", min: "2", max: "150", step: "1", value: String(radius),
        oninput: (event) => {
          radius = Number(event.target.value);
          drawSpots();
          invalidate();
        },
      }),
    ),
    element("p.hint", {}, phrase("finish.heal-hint")),
    element("ol.spot-list", { id: "spot-list", "aria-label": phrase("finish.spots") }),
  ];
}

function row({ x, y, radius: reach }, place) {
  const name = phrase("finish.spot", { number: place + 1 });
  return element(
    "li.spot",
    {},
    element("button.plain.stroke-name", { title: phrase("strokes.go"), "aria-label": phrase("finish.go", { name }), onclick: () => lookAt({ x, y }, Math.max(view.camera.scale, Math.min(2, 60 / reach))) }, `${name}  ${Math.round(x)}, ${Math.round(y)}`),
    element("button.plain", { "aria-label": phrase("finish.remove", { name }), title: phrase("frames.remove"), onclick: () => remove(place) }, icon("close")),
  );
}

export function drawSpots() {
  if (!byId("spot-list")) return;
  byId("spot-size-value").textContent = phrase("retouch.pixels", { size: radius });
  const list = byId("spot-list");
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  list.replaceChildren(...finish.current.spots.map(row));
  if (focused) (list.querySelector(`[aria-label="${CSS.escape(focused)}"]`) ?? byId("heal")).focus({ preventScroll: true });
}

/** Rims of the spots while they are healed, and of the next one under the pointer. */
view.overlays.push((context, pane) => {
  if (mode !== "heal" || pane.layer !== "result") return;
  const rim = ({ x, y, radius: reach }, isNext) => {
    const place = toScreen(view.camera, pane, { x, y });
    for (const [colour, width] of [["rgba(0, 0, 0, 0.65)", 3], ["rgba(255, 255, 255, 0.95)", 1.25]]) {
      context.beginPath();
      context.setLineDash(isNext ? [] : [4, 4]);
      context.arc(place.x, place.y, Math.max(2, reach * view.camera.scale), 0, 2 * Math.PI);
      context.strokeStyle = colour;
      context.lineWidth = width * (window.devicePixelRatio || 1);
      context.stroke();
    }
    context.setLineDash([]);
  };
  for (const spot of finish.current.spots) rim(spot, false);
  if (hover) rim({ ...hover, radius }, true);
});

const pointOf = (event) => {
  const screen = screenPoint(event);
  return toPicture(view.camera, paneAt(screen), screen);
};

canvas.addEventListener("pointerdown", (event) => {
  pressed = mode && event.button === 0 ? { x: event.clientX, y: event.clientY } : null;
});
canvas.addEventListener("pointermove", (event) => {
  if (mode !== "heal" || !view.store) return;
  hover = pointOf(event);
  invalidate();
});
canvas.addEventListener("pointerleave", () => {
  if (hover) invalidate();
  hover = null;
});
canvas.addEventListener("pointerup", (event) => {
  if (!mode || !pressed || !view.store) return;
  if (Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) <= FARTHEST_CLICK) act(pointOf(event));
  pressed = null;
});
canvas.addEventListener("keydown", (event) => {
  if (!mode || !view.store) return;
  if (event.key === "Enter") act({ x: view.camera.x, y: view.camera.y });
  else if (event.key === "Escape") setMode(null);
});
on("result", () => {
  setMode(null);
  radius = Math.min(150, Math.max(4, Math.round(Math.max(state.job.result.width, state.job.result.height) / 150)));
  if (byId("spot-size")) byId("spot-size").value = String(radius);
});
on("tool", (name) => name !== "finish" && mode && setMode(null));
on("view", () => mode && state.view !== "result" && setMode(null));
on("brush", () => mode && state.brush.on && setMode(null));
on("job", () => phase() !== "done" && mode && setMode(null));
