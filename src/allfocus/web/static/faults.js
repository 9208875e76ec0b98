// Places of the result that are worth a look: a list, keys that lead from one to the next, and one that paints it.

import * as api from "./api.js";
import { matchingLight } from "./brightness.js";
import { toScreen } from "./camera.js";
import { byId, element, icon, plural } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { emit, nameOf, on, phase, setJob, setOther, setView, sourceOf, state } from "./state.js";
import { send } from "./strokes.js";
import { phrase } from "./texts.js";
import { invalidate, lookAt, panes, view } from "./viewer.js";

const OF_THE_PANE = 0.45; // how much of the pane a place takes
const LARGEST_SCALE = 3;
const MARGIN = 6; // pixels of the screen between a place and its frame
const REMEMBERED = "allfocus-go-on";
const ALL_DONE = phrase("faults.all-done");

let faults = []; // of the result that is open, worst first
let present = null; // the id of the one that is looked at
let listOf = null; // which result they belong to
let failure = null; // why there is no list
let isWanted = false; // somebody asked for the first place before the list was here
const warmed = new Set(); // layers that the server was asked to make ahead

const resultKey = () => (state.job?.result ? `${state.job.id}/${state.job.result.first_revision}` : null);
const goesOn = () => localStorage.getItem(REMEMBERED) !== "no";
const at = () => faults.findIndex((fault) => fault.id === present);

/** "open", "painted" or "dismissed": strokes and verdicts tell, so undo and other windows need no word of their own. */
function standing(fault) {
  if (state.job.strokes.some((stroke) => stroke.fault === fault.id && !stroke.hidden)) return "painted";
  return state.job.result.dismissed.includes(fault.id) ? "dismissed" : "open";
}

const isOpen = (fault) => standing(fault) === "open";

async function load() {
  const key = resultKey();
  if (key === listOf) return;
  [faults, present, listOf, failure, isWanted] = [[], null, key, null, false];
  warmed.clear();
  draw();
  if (!key || state.job.result.faults === null) return;
  try {
    const found = await api.faults(state.job.id);
    if (key === listOf) faults = found;
  } catch (problem) {
    if (key === listOf) failure = problem.message;
  }
  draw();
  if (isWanted && faults.length) nextFault();
}

// Going from one to the next --------------------------------------------------------------------------------------

function show(fault) {
  present = fault.id;
  if (fault.layer) setOther(fault.layer);
  if (state.view !== "side") setView("side");
  emit("show-tool", "check");
  emit("show-picture");
  const [pane] = panes();
  const scale = OF_THE_PANE * Math.min(pane.width / fault.width, pane.height / fault.height);
  lookAt({ x: fault.left + fault.width / 2, y: fault.top + fault.height / 2 }, Math.min(LARGEST_SCALE, scale));
  draw();
  announce(phrase("faults.announce", { place: at() + 1, count: faults.length, about: describe(fault) }));
}

/** The first place after the present one that nobody has dealt with; when all are, simply the next. */
export function nextFault() {
  if (!canCheck()) return;
  const ahead = [...faults.slice(at() + 1), ...faults.slice(0, at() + 1)];
  show(ahead.find(isOpen) ?? ahead[0]);
}

/** The one before, whatever was done about it. */
export function previousFault() {
  if (canCheck()) show(faults[(Math.max(at(), 0) - 1 + faults.length) % faults.length]);
}

function canCheck() {
  if (phase() === "done" && !faults.length) announce(summary());
  isWanted = phase() === "done" && !faults.length && state.job.result.faults > 0; // a key that came before the list
  return phase() === "done" && faults.length > 0;
}

/** Leaves the places; the view stays as it is. */
export function leaveFault() {
  present = null;
  draw();
}

function goOn() {
  if (goesOn() && faults.some(isOpen)) nextFault();
  else if (!faults.some(isOpen)) announce(ALL_DONE);
}

/** Paints the frame beside the result into the place: an ordinary stroke, which undo takes back. */
export async function mendFault() {
  const fault = faults[at()];
  if (phase() !== "done" || !fault) {
    if (phase() === "done") nextFault(); // nothing is painted that was not looked at
    return;
  }
  if (standing(fault) === "painted") {
    announce(phrase("faults.painted-already"));
    return;
  }
  if (!state.other) return;
  const { points, radius, hardness, id } = fault;
  const source = sourceOf(state.other);
  // The frame may be brighter there than the result, for want of a veil: as bright as around it, no rim is seen.
  const light = matchingLight(points, radius, source, !state.job.result.channels.length);
  await send({ source, points, radius, hardness, ...light, fault: id });
  if (present === id && standing(fault) === "painted") goOn();
}

export async function dismissFault() {
  const fault = faults[at()];
  if (phase() !== "done" || !fault) return;
  const wanted = !state.job.result.dismissed.includes(fault.id);
  const { job } = state;
  const answer = await attempt(() => api.judgeFault(job.id, fault.id, wanted));
  if (!answer || resultKey() !== listOf) return;
  setJob({ ...state.job, result: { ...state.job.result, dismissed: answer.dismissed } });
  announce(wanted ? phrase("faults.dismissed-now") : phrase("faults.undismissed"));
  if (wanted && present === fault.id) goOn();
}

// What is shown ---------------------------------------------------------------------------------------------------

function describe(fault) {
  const frame = fault.layer ? nameOf(fault.layer) : phrase("faults.removed");
  const percent = Math.round(fault.share * 100);
  return fault.kind === "lost" ? phrase("faults.lost", { percent, frame }) : phrase("faults.doubt", { frame });
}

function summary() {
  const { faults: count } = state.job.result;
  if (failure) return failure;
  if (state.job.result.slab) return phrase("faults.slab");
  if (count === null) return phrase("faults.older");
  if (!faults.length) return count ? phrase("faults.loading") : phrase("faults.none");
  const open = faults.filter(isOpen).length;
  const painted = faults.filter((fault) => standing(fault) === "painted").length;
  const parts = [phrase("faults.open", { open, places: plural(faults.length, "place") }), painted && phrase("faults.count-painted", { count: painted }), faults.length - open - painted && phrase("faults.count-dismissed", { count: faults.length - open - painted })];
  return `${parts.filter(Boolean).join(", ")}.`;
}

const STANDING = { painted: phrase("faults.painted"), dismissed: phrase("faults.dismissed") };
const SIGNS = { painted: "brush", dismissed: "close" };

function row(fault, place) {
  const stands = standing(fault);
  const lost = fault.kind === "lost";
  return element(
    "li",
    {},
    element(
      `button.fault.${stands}`,
      { "data-fault": fault.id, "aria-current": fault.id === present ? "true" : null, title: phrase("faults.at", { left: fault.left, top: fault.top, about: describe(fault) }), onclick: () => show(fault) },
      element("span.fault-number", {}, stands === "open" ? String(place + 1) : icon(SIGNS[stands])),
      element("span.fault-text", {}, element("strong", {}, lost ? phrase("faults.lost-short", { percent: Math.round(fault.share * 100) }) : phrase("faults.doubt-short")), element("small", {}, fault.layer ? nameOf(fault.layer) : phrase("faults.removed-short"))),
      element("small", {}, `${fault.width} × ${fault.height}`),
      stands !== "open" && element("span.unseen", {}, `, ${STANDING[stands]}`),
    ),
  );
}

function drawPanel() {
  const panel = byId("check");
  const focused = panel.contains(document.activeElement) ? document.activeElement : null;
  const name = focused?.dataset.fault ?? focused?.id;
  const off = !faults.length;
  panel.replaceChildren(
    element("p.hint", { id: "fault-summary", role: "status" }, summary()),
    element(
      "div.row",
      {},
      element("button.grow", { id: "fault-previous", disabled: off, onclick: previousFault }, icon("earlier"), phrase("faults.previous"), element("kbd", {}, "P")),
      element("button.grow.primary", { id: "fault-next", disabled: off, onclick: nextFault }, phrase("faults.next"), element("kbd", {}, "N"), icon("later")),
    ),
    element(
      "label.switch",
      {},
      element("input", { type: "checkbox", role: "switch", id: "fault-go-on", checked: goesOn(), onchange: (event) => localStorage.setItem(REMEMBERED, event.target.checked ? "yes" : "no") }),
      element("span", {}, element("strong", {}, phrase("faults.go-on")), element("small", {}, phrase("faults.go-on-hint"))),
    ),
    element("ol.fault-list", { id: "fault-list", "aria-label": phrase("faults.list") }, faults.map(row)),
  );
  if (name) (byId(name) ?? panel.querySelector(`[data-fault="${CSS.escape(name)}"]`))?.focus({ preventScroll: true });
  panel.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function drawBar() {
  const bar = byId("fault-bar");
  const fault = faults[at()];
  bar.hidden = !fault;
  if (!fault) return;
  const focused = bar.contains(document.activeElement) ? document.activeElement.id : null;
  const stands = standing(fault);
  const act = (id, label, key, action, kind = "") =>
    element(`button.small${kind}`, { id, title: `${label} (${key})`, onclick: action }, label, element("kbd", {}, key));
  bar.replaceChildren(
    element("span.fault-place", {}, `${at() + 1} / ${faults.length}`),
    element("span.fault-about", {}, describe(fault), stands !== "open" && element("em", {}, ` ${STANDING[stands]}`), !faults.some(isOpen) && ` — ${ALL_DONE}`),
    act("bar-previous", phrase("faults.previous"), "P", previousFault),
    act("bar-mend", phrase("faults.paint", { name: nameOf(sourceOf(state.other)) }), "R", mendFault, ".primary"),
    act("bar-dismiss", stands === "dismissed" ? phrase("faults.take-back") : phrase("faults.dismiss"), "I", dismissFault),
    act("bar-next", phrase("faults.next"), "N", nextFault),
    element("button.plain", { id: "bar-close", "aria-label": phrase("faults.leave"), title: phrase("faults.leave-key"), onclick: leaveFault }, icon("close")),
  );
  byId("bar-mend").disabled = stands === "painted" || !state.other;
  if (focused) byId(focused)?.focus({ preventScroll: true });
}

function draw() {
  if (phase() !== "done") return;
  const open = faults.filter(isOpen).length;
  byId("tab-check").replaceChildren(phrase("page.check"), ...(open ? [" ", element("span.badge", { "aria-label": phrase("faults.badge", { places: plural(open, "place") }) }, String(open))] : []));
  drawPanel();
  drawBar();
  view.store && invalidate();
}

/** Corners around the place, in each pane, so that what is beneath stays in sight. */
view.overlays.push((context, pane) => {
  const fault = faults[at()];
  if (!fault || state.view === "relief") return;
  const ratio = window.devicePixelRatio || 1;
  const from = toScreen(view.camera, pane, { x: fault.left, y: fault.top });
  const to = toScreen(view.camera, pane, { x: fault.left + fault.width, y: fault.top + fault.height });
  const [left, top, right, bottom] = [from.x - MARGIN * ratio, from.y - MARGIN * ratio, to.x + MARGIN * ratio, to.y + MARGIN * ratio];
  const arm = Math.min(18 * ratio, (right - left) / 3, (bottom - top) / 3);
  for (const [colour, width] of [["rgba(0, 0, 0, 0.6)", 4], ["#ffb454", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width * ratio;
    context.beginPath();
    for (const [x, y, across, down] of [[left, top, 1, 1], [right, top, -1, 1], [left, bottom, 1, -1], [right, bottom, -1, -1]]) {
      context.moveTo(x + across * arm, y);
      context.lineTo(x, y);
      context.lineTo(x, y + down * arm);
    }
    context.stroke();
  }
});

/** The server aligns a frame again when it is first looked at; that of the next place is asked for ahead. */
function warmNext() {
  if (!present || view.store?.isComplete !== true) return;
  const next = faults.slice(at() + 1).find((fault) => isOpen(fault) && fault.layer && fault.layer !== state.other);
  if (!next || warmed.has(next.layer)) return;
  warmed.add(next.layer);
  view.store.load(next.layer, view.store.levels - 1, 0, 0).catch(() => warmed.delete(next.layer));
}

on("job", () => {
  load();
  draw();
});
on("view", () => present && drawBar());
on("drawn", warmNext);
