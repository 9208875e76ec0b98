// The strokes of the open result as a list, each with an eye: what is hidden stays, and is left out of the picture.

import { byId, element, icon } from "./elements.js";
import "./retouch_panel.js"; // which makes the place for it, and so hears of a job first
import { nameOf, on, phase, state } from "./state.js";
import { hide } from "./strokes.js";
import { phrase } from "./texts.js";
import { lookAt, view } from "./viewer.js";

const MOST_SHOWN = 200; // of the newest; a list of thousands helps nobody
const MODES = { lighten: phrase("strokes.lighter"), darken: phrase("strokes.darker") };

function about({ source, opacity, mode, tolerance, fault }) {
  const from = source === state.job.result.id ? phrase("strokes.off") : nameOf(source);
  return [from, MODES[mode], opacity < 1 && `${Math.round(opacity * 100)} %`, tolerance && phrase("strokes.inside"), fault && phrase("strokes.place")].filter(Boolean).join(", ");
}

function show({ points, radius }) {
  const [x, y] = points[Math.floor(points.length / 2)];
  lookAt({ x, y }, Math.max(view.camera.scale, Math.min(2, 200 / radius)));
}

function row(stroke, number) {
  const text = about(stroke);
  return element(
    `li.stroke${stroke.hidden ? ".hidden-stroke" : ""}`,
    {},
    element(
      "button.plain",
      { "aria-label": phrase("strokes.visible", { number, about: text }), "aria-pressed": String(!stroke.hidden), title: stroke.hidden ? phrase("strokes.show") : phrase("strokes.hide"), onclick: () => hide(stroke.id, !stroke.hidden) },
      icon(stroke.hidden ? "hidden" : "eye"),
    ),
    element("button.plain.stroke-name", { title: phrase("strokes.go"), "aria-label": phrase("strokes.go-name", { number, about: text }), onclick: () => show(stroke) }, `${number}  ${text}`),
  );
}

function draw() {
  const details = byId("stroke-details");
  if (phase() !== "done" || !details) return;
  const { strokes } = state.job;
  const list = byId("stroke-list");
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  details.hidden = !strokes.length;
  list.replaceChildren(...strokes.map((stroke, place) => row(stroke, place + 1)).slice(-MOST_SHOWN).reverse());
  if (focused) list.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

on("job", draw);
