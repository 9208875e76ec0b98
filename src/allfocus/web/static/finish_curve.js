// Free curves: points that are moved with the mouse, a finger or the keyboard. The line between them is the server's, so
// that it is the one that files get.

import { byId, element, icon } from "./elements.js";
import { change, finish } from "./finish.js";
import { announce } from "./messages.js";
import { on } from "./state.js";
import { decimal, phrase } from "./texts.js";

const NAMES = { all: phrase("curve.all"), red: phrase("curve.red"), green: phrase("curve.green"), blue: phrase("curve.blue") };
const STRAIGHT = [[0, 0], [1, 1]];
const MOST = 16;
const APART = 0.01;
const REACH = 14; // CSS pixels
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const SVG = "http://www.w3.org/2000/svg";

let chosen = "all";
let held = null; // the number of the point that is dragged

const pointsOf = () => (finish.current.curves[chosen].length ? finish.current.curves[chosen] : STRAIGHT);
const within = (value, least, most) => Math.min(most, Math.max(least, value));
const rounded = (value) => Math.round(value * 1000) / 1000;

function put(points, rest) {
  change({ curves: { ...finish.current.curves, [chosen]: points } }, { rest });
}

/** Moves a point, as far as its neighbours allow. */
function move(number, [x, y], rest) {
  const points = pointsOf();
  const left = number > 0 ? points[number - 1][0] + APART : 0;
  const right = number < points.length - 1 ? points[number + 1][0] - APART : 1;
  put(points.map((point, place) => (place === number ? [rounded(within(x, left, right)), rounded(within(y, 0, 1))] : point)), rest);
}

/** Adds a point; gives its number, or null where there is no room for it. */
function add([x, y], rest) {
  const points = pointsOf();
  if (points.length >= MOST || points.some((point) => Math.abs(point[0] - x) < APART)) return null;
  const number = points.filter((point) => point[0] < x).length;
  put([...points.slice(0, number), [rounded(x), rounded(within(y, 0, 1))], ...points.slice(number)], rest);
  return number;
}

function remove(number) {
  const points = pointsOf();
  if (points.length <= 2) return;
  put(points.filter((_, place) => place !== number), true);
  announce(phrase("curve.removed"));
  focusPoint(Math.min(number, points.length - 2));
}

/** The point under a double click: the board has caught the pointer, so the event does not name it. */
function removeThere(event) {
  const box = byId("curve-board").getBoundingClientRect();
  const distance = ([x, y]) => Math.hypot(box.left + x * box.width - event.clientX, box.bottom - y * box.height - event.clientY);
  const number = pointsOf().findIndex((point) => distance(point) <= REACH);
  if (number >= 0) remove(number);
}

/** In the middle of the widest gap, on the curve as it is. */
function addBetween() {
  const points = pointsOf();
  const gaps = points.slice(1).map((point, place) => point[0] - points[place][0]);
  const widest = gaps.indexOf(Math.max(...gaps));
  const x = (points[widest][0] + points[widest + 1][0]) / 2;
  const line = finish.preview?.curves[chosen];
  const y = line ? line[Math.round(x * (line.length - 1))] : (points[widest][1] + points[widest + 1][1]) / 2;
  const number = add([x, y], true);
  if (number !== null) focusPoint(number);
}

const focusPoint = (number) => byId("curve-board").querySelectorAll(".curve-point")[number]?.focus();

/** Where the pointer is on the board, as a point. */
function placeOf(event) {
  const box = byId("curve-board").getBoundingClientRect();
  return [within((event.clientX - box.left) / box.width, 0, 1), within(1 - (event.clientY - box.top) / box.height, 0, 1)];
}

function press(event) {
  if (event.button !== 0) return;
  event.preventDefault();
  const point = event.target.closest(".curve-point");
  held = point ? Number(point.dataset.number) : add(placeOf(event), false);
  if (held === null) return;
  byId("curve-board").setPointerCapture(event.pointerId);
  focusPoint(held);
}

function drag(event) {
  if (held !== null) move(held, placeOf(event), false);
}

function release() {
  if (held === null) return;
  held = null;
  put(pointsOf(), true);
}

function pressKey(event) {
  const number = Number(event.target.dataset?.number);
  if (!event.target.matches(".curve-point")) return;
  const step = STEPS[event.key];
  if (step) {
    const [x, y] = pointsOf()[number];
    const far = event.shiftKey ? 0.1 : 0.01;
    move(number, [x + far * step[0], y + far * step[1]], false);
  } else if (event.key === "Delete" || event.key === "Backspace") remove(number);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

export function buildCurves() {
  const line = document.createElementNS(SVG, "svg");
  line.setAttribute("viewBox", "0 0 100 100");
  line.setAttribute("preserveAspectRatio", "none");
  line.setAttribute("aria-hidden", "true");
  for (const [name, drawing] of [["curve-grid", "M25 0V100M50 0V100M75 0V100M0 25H100M0 50H100M0 75H100M0 100L100 0"], ["curve-line", ""]]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", drawing);
    line.append(path);
  }
  return [
    element(
      "label.field",
      { for: "curve-colour", id: "curve-colours" },
      phrase("curve.of"),
      element(
        "select",
        {
          id: "curve-colour",
          onchange: (event) => {
            chosen = event.target.value;
            drawCurves();
          },
        },
        Object.entries(NAMES).map(([value, title]) => element("option", { value }, title)),
      ),
    ),
    element("div.curve-board", { id: "curve-board", role: "group", "aria-label": phrase("curve.board"), onpointerdown: press, onpointermove: drag, onpointerup: release, onpointercancel: release, ondblclick: removeThere, onkeydown: pressKey }, line),
    element(
      "div.row",
      {},
      element("button.small.grow", { id: "curve-add", onclick: addBetween }, icon("plus"), phrase("curve.add")),
      element("button.small.grow", { id: "curve-straight", onclick: () => put([], true) }, phrase("curve.straight")),
    ),
    element("p.hint", {}, phrase("curve.hint")),
  ];
}

const pathOf = (heights) => heights.map((height, place) => `${place ? "L" : "M"}${(100 * place) / (heights.length - 1)} ${100 - 100 * height}`).join("");

/** A line through the points alone, until the server has said how it bends. */
const straightPath = (points) => `M0 ${100 - 100 * points[0][1]}${points.map(([x, y]) => `L${100 * x} ${100 - 100 * y}`).join("")}L100 ${100 - 100 * points.at(-1)[1]}`;

export function drawCurves() {
  const board = byId("curve-board");
  if (!board) return;
  const isGrey = finish.preview?.tables.length === 1;
  if (isGrey) chosen = "all";
  byId("curve-colours").hidden = isGrey;
  byId("curve-colour").value = chosen;
  board.dataset.colour = chosen;
  const points = pointsOf();
  const heights = finish.preview?.curves[chosen];
  board.querySelector(".curve-line").setAttribute("d", heights ? pathOf(heights) : straightPath(points));
  const present = [...board.querySelectorAll(".curve-point")];
  present.slice(points.length).forEach((node) => node.remove());
  points.forEach(([x, y], number) => {
    const node = present[number] ?? board.appendChild(element("button.curve-point", { type: "button", "data-number": number }));
    node.style.left = `${100 * x}%`;
    node.style.bottom = `${100 * y}%`;
    const words = { number: number + 1, before: decimal(x, 2), after: decimal(y, 2) };
    node.setAttribute("aria-label", phrase("curve.point", words));
    node.title = phrase("curve.point", words);
  });
  byId("curve-straight").disabled = !finish.current.curves[chosen].length;
  byId("curve-add").disabled = points.length >= MOST;
}

on("result", () => {
  chosen = "all";
});
