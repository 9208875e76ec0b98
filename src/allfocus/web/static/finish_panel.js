// The panel of the finish: histogram, light, white balance, levels, and how to go back.

import { byId, element, icon } from "./elements.js";
import { NEUTRAL, change, finish, isChanged, keep, redoFinish, showInViewer, undoFinish } from "./finish.js";
import { buildCrop, drawCrop } from "./finish_crop.js";
import { buildBar, drawBar } from "./finish_bar.js";
import { buildCurves, drawCurves } from "./finish_curve.js";
import { buildSpots, drawSpots, pickGrey } from "./finish_spots.js";
import { openExport } from "./export.js";
import { on, phase, setView, state } from "./state.js";
import { decimal, phrase } from "./texts.js";

const signed = (digits) => (value) => `${value > 0 ? "+" : ""}${decimal(value, digits)}`;
const SLIDERS = {
  exposure: [phrase("finish.exposure"), -5, 5, 0.05, (value) => phrase("finish.stops", { value: signed(2)(value) })],
  contrast: [phrase("finish.contrast"), -100, 100, 1, signed(0)],
  temperature: [phrase("finish.temperature"), -100, 100, 1, signed(0)],
  tint: [phrase("finish.tint"), -100, 100, 1, signed(0)],
  black: [phrase("finish.black-point"), 0, 1, 0.001, (value) => decimal(value, 3)],
  white: [phrase("finish.white-point"), 0, 1, 0.001, (value) => decimal(value, 3)],
  gamma: [phrase("finish.middle"), -1, 1, 0.01, (value) => decimal(value, 2)],
};
const NARROWEST = 0.001;
const COLOURS = { 1: ["--text"], 3: ["--red", "--green", "--blue"] };

/** The slider of the middle is logarithmic: 0.1 to 10. */
const toSlider = (name, value) => (name === "gamma" ? Math.log10(value) : value);
const fromSlider = (name, value) => (name === "gamma" ? Number((10 ** value).toFixed(3)) : value);

function set(name, value, rest) {
  const values = { [name]: value };
  if (name === "black") values.white = Math.max(finish.current.white, Math.min(1, value + NARROWEST));
  if (name === "white") values.black = Math.min(finish.current.black, Math.max(0, value - NARROWEST));
  if (name === "black") values.black = Math.min(value, 1 - NARROWEST);
  if (name === "white") values.white = Math.max(value, NARROWEST);
  change(values, { rest });
}

function slider(name) {
  const [title, min, max, step] = SLIDERS[name];
  const id = `finish-${name}`;
  const read = (event) => fromSlider(name, Number(event.target.value));
  return element(
    "div.field.range",
    { id: `${id}-field` },
    element("label", { for: id }, title, element("output", { id: `${id}-value`, for: id })),
    element("input", {
      type: "range", id, min, max, step, title: phrase("finish.double-click"),
      oninput: (event) => set(name, read(event), false),
      onchange: (event) => set(name, read(event), true),
      ondblclick: () => set(name, NEUTRAL[name], true),
    }),
  );
}

function section(id, title, isOpen, ...content) {
  return element("details.finish-part", { id, open: isOpen }, element("summary", {}, title), element("div.finish-content", {}, content));
}

function build() {
  byId("finish").replaceChildren(
    element("canvas.histogram", { id: "histogram", width: "512", height: "160", role: "img" }),
    element(
      "div.row",
      {},
      element("button.grow", { id: "finish-undo", onclick: undoFinish }, icon("undo"), phrase("retouch.undo")),
      element("button.grow", { id: "finish-redo", onclick: redoFinish }, icon("redo"), phrase("retouch.redo")),
      element("button.grow", { id: "finish-reset", onclick: () => change({ ...NEUTRAL }, { rest: true }) }, phrase("finish.reset")),
    ),
    section("finish-light", phrase("finish.light"), true, slider("exposure"), slider("contrast")),
    section(
      "finish-balance", phrase("finish.balance"), true, slider("temperature"), slider("tint"),
      element("button.small.toggle", { id: "finish-grey", "aria-pressed": "false", onclick: pickGrey }, icon("target"), phrase("finish.grey")),
    ),
    section(
      "finish-levels", phrase("finish.levels"), true, slider("black"), slider("white"), slider("gamma"),
      element("button.small", { id: "finish-auto", onclick: () => finish.preview && change({ ...finish.preview.auto, gamma: 1 }, { rest: true }) }, phrase("options.automatic")),
      element("p.hint", { id: "finish-dark" }),
    ),
    section("finish-curves", phrase("curve.heading"), false, ...buildCurves()),
    section("finish-frame", phrase("finish.frame"), false, ...buildCrop()),
    section("finish-dust", phrase("finish.dust"), false, ...buildSpots()),
    section("finish-scale", phrase("finish.scale-bar"), false, ...buildBar()),
    element(
      "label.switch",
      {},
      element("input", { type: "checkbox", role: "switch", id: "finish-shown", checked: true, onchange: (event) => showInViewer(event.target.checked) }),
      element("span", {}, element("strong", {}, phrase("finish.shown")), element("small", {}, phrase("finish.shown-hint"))),
    ),
    element(
      "div.row",
      {},
      element("button.grow", { id: "finish-look", onclick: () => setView(state.view === "finished" ? "result" : "finished") }, icon("eye"), phrase("compare.finished")),
      element("button.grow.primary", { id: "finish-export", onclick: () => keep().then(openExport) }, icon("download"), phrase("export.open")),
    ),
    element("p.hint", { id: "finish-state", role: "status" }),
  );
}

function draw() {
  if (phase() !== "done") return;
  if (!byId("histogram")) build();
  for (const name of Object.keys(SLIDERS)) {
    const input = byId(`finish-${name}`);
    const value = finish.current[name];
    if (document.activeElement !== input || Number(input.value) !== toSlider(name, value)) input.value = toSlider(name, value);
    byId(`finish-${name}-value`).textContent = SLIDERS[name][4](value);
  }
  const isGrey = finish.preview?.tables.length === 1;
  byId("finish-balance").hidden = isGrey;
  byId("finish-undo").disabled = !finish.earlier.length && !isChanged();
  byId("finish-redo").disabled = !finish.later.length || isChanged();
  byId("finish-reset").disabled = JSON.stringify(finish.current) === JSON.stringify(NEUTRAL);
  byId("finish-dark").textContent = state.job.result.white < 1 ? phrase("finish.dark") : "";
  const [width, height] = finish.preview?.finished_size ?? state.job.result.finished_size;
  byId("finish-state").textContent = isChanged() ? `${width} × ${height}` : phrase("finish.kept", { width, height });
  drawCurves();
  drawCrop();
  drawSpots();
  drawBar();
  drawHistogram();
}

function drawHistogram() {
  const board = byId("histogram");
  const context = board.getContext("2d");
  const { width, height } = board;
  context.clearRect(0, 0, width, height);
  const counts = finish.preview?.histogram;
  if (!counts) return;
  const style = getComputedStyle(board);
  // The ends hold what is clipped, which would dwarf everything else.
  const highest = Math.max(...counts.flatMap((channel) => channel.slice(1, -1)), 1e-6);
  context.globalCompositeOperation = style.getPropertyValue("--mixing").trim() || "source-over";
  counts.forEach((channel, number) => {
    context.fillStyle = style.getPropertyValue(COLOURS[counts.length][number]);
    context.beginPath();
    context.moveTo(0, height);
    channel.forEach((count, place) => {
      const y = height - Math.min(1, Math.sqrt(count / highest)) * (height - 4);
      context.lineTo((place * width) / 256, y);
      context.lineTo(((place + 1) * width) / 256, y);
    });
    context.lineTo(width, height);
    context.fill();
  });
  context.globalCompositeOperation = "source-over";
  const share = (place) => Math.max(...counts.map((channel) => channel[place]));
  const percent = (value) => `${decimal(100 * value, value < 0.1 ? 1 : 0)} %`;
  board.setAttribute("aria-label", phrase("finish.histogram", { black: percent(share(0)), white: percent(share(255)) }));
}

on("job finish", draw);
on("theme", draw);
