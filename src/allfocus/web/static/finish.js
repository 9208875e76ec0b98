// The finish of the open result: what it is now, how it looks (the server's own curves, as a filter on the picture), and
// how it is kept. What is changed is shown at once and sent when the hand rests.

import * as api from "./api.js";
import { announce, attempt } from "./messages.js";
import { emit, on, phase, setJob, state } from "./state.js";
import { phrase } from "./texts.js";
import { canvas, invalidate, view } from "./viewer.js";

export const NEUTRAL = { exposure: 0, temperature: 0, tint: 0, black: 0, white: 1, gamma: 1, contrast: 0, curves: { all: [], red: [], green: [], blue: [] }, turns: 0, angle: 0, crop: null, spots: [], scale_bar: null };
const TONES = ["exposure", "temperature", "tint", "black", "white", "gamma", "contrast", "curves"];
const FILTERED_VIEWS = ["result", "slider", "side", "flicker"];
const MILLISECONDS_BEFORE_SENDING = 250;
const MOST_UNDONE = 100;
const NOWHERE = [Infinity, Infinity, -Infinity, -Infinity]; // tones change no tile of the result
const FILTER = "finish-tones";
const SVG = "http://www.w3.org/2000/svg";

export const finish = {
  current: { ...NEUTRAL }, // what the panel shows
  preview: null, // what the server says of it: { tables, histogram, curves, auto, finished_size, scale_bar }
  shown: true, // whether the tones are seen in the viewer
  earlier: [], // what it was before, the last first to come back
  later: [], // what was undone, the last first to come again
};

let owner = null; // the result that it belongs to
let kept = JSON.stringify(NEUTRAL);
let timer = null;
let sending = Promise.resolve();
let sendingCount = 0;
let asking = false;
let askAgain = false;

const text = (value) => JSON.stringify(value);
export const isChanged = () => text(finish.current) !== kept || sendingCount > 0;
export const hasTones = () => TONES.some((name) => text(finish.current[name]) !== text(NEUTRAL[name]));

/** Changes some of it: seen at once, kept a moment later, or now with `rest`. */
export function change(values, { rest = false } = {}) {
  if (phase() !== "done") return;
  finish.current = { ...finish.current, ...values };
  emit("finish");
  ask();
  clearTimeout(timer);
  if (rest) keep();
  else timer = setTimeout(keep, MILLISECONDS_BEFORE_SENDING);
}

/** Sends it to be kept with the result; one after the other, so that the last word is the last change. */
export function keep() {
  clearTimeout(timer);
  if (text(finish.current) === kept) return sending;
  return step({ earlier: [...finish.earlier, JSON.parse(kept)].slice(-MOST_UNDONE), later: [] });
}

/** Sends what is set now, with the steps that then lie before and after it. */
function step(steps) {
  const { job } = state;
  const [sent, before] = [finish.current, { kept, earlier: finish.earlier, later: finish.later }];
  kept = text(sent);
  Object.assign(finish, steps);
  return send(job, sent, before);
}

function send(job, sent, before) {
  sendingCount += 1;
  sending = sending.then(async () => {
    const answer = await attempt(() => api.keepFinish(job.id, sent));
    sendingCount -= 1;
    if (owner !== ownerOf(state.job)) return;
    if (answer) take(answer);
    else if (kept === text(sent)) {
      // Refused: what was kept last is what holds.
      kept = before.kept;
      finish.current = JSON.parse(kept);
      finish.earlier = before.earlier;
      finish.later = before.later;
      ask();
    }
    emit("finish");
  });
  emit("finish");
  return sending;
}

function take({ revision, area, finish: held, finished_size }) {
  view.store?.edit(revision, area[0] < area[2] ? area : NOWHERE);
  setJob({ ...state.job, result: { ...state.job.result, revision, finish: held, finished_size } });
  invalidate();
}

/** Back to what it was before the last change. */
export function undoFinish() {
  clearTimeout(timer);
  if (text(finish.current) !== kept) keep();
  if (!finish.earlier.length) return;
  const before = finish.current;
  finish.current = finish.earlier.at(-1);
  step({ earlier: finish.earlier.slice(0, -1), later: [...finish.later, before] });
  announce(phrase("strokes.undone"));
  ask();
}

/** On to what was undone last; a change of something else forgets it. */
export function redoFinish() {
  if (!finish.later.length || text(finish.current) !== kept) return;
  const before = finish.current;
  finish.current = finish.later.at(-1);
  step({ earlier: [...finish.earlier, before], later: finish.later.slice(0, -1) });
  announce(phrase("strokes.redone"));
  ask();
}

// How it looks ----------------------------------------------------------------------------------------------------

/** Asks the server for the curves of what is set now; while it answers, only the newest question waits. */
async function ask() {
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  const mine = owner;
  try {
    const answer = await api.previewFinish(state.job.id, finish.current);
    if (mine === owner) finish.preview = answer;
  } catch {
    // What cannot be done is said when it is to be kept; the picture stays as it is.
  }
  asking = false;
  if (mine === owner) {
    showTones();
    emit("finish");
  }
  if (askAgain) {
    askAgain = false;
    if (phase() === "done") ask();
  }
}

/** The curves as a filter of the canvas: exactly what the server would do to each level of a tile. */
function showTones() {
  const wanted = phase() === "done" && finish.shown && hasTones() && finish.preview && FILTERED_VIEWS.includes(state.view);
  if (wanted) {
    const functions = filter().querySelectorAll("feFuncR, feFuncG, feFuncB");
    const { tables } = finish.preview;
    functions.forEach((node, channel) => node.setAttribute("tableValues", (tables[channel] ?? tables[0]).join(" ")));
  }
  const value = wanted ? `url(#${FILTER})` : "";
  if (canvas.style.filter !== value) canvas.style.filter = value;
  if (view.isToned === Boolean(wanted)) return;
  view.isToned = Boolean(wanted);
  invalidate();
}

function filter() {
  const present = document.getElementById(FILTER);
  if (present) return present;
  const make = (name, attributes, ...children) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const functions = ["feFuncR", "feFuncG", "feFuncB"].map((name) => make(name, { type: "table", tableValues: "0 1" }));
  // Without "sRGB" the filter would turn the values into light first.
  const made = make("filter", { id: FILTER, "color-interpolation-filters": "sRGB", x: "0", y: "0", width: "1", height: "1" }, make("feComponentTransfer", {}, ...functions));
  document.body.append(make("svg", { width: "0", height: "0", "aria-hidden": "true", class: "filters" }, make("defs", {}, made)));
  return made;
}

export function showInViewer(wanted) {
  finish.shown = wanted;
  showTones();
}

/** Whether somebody looks at what the server would say: the panel is open, or there are tones to show. */
const isWanted = () => phase() === "done" && (document.body.dataset.tool === "finish" || (hasTones() && !finish.preview));

const ownerOf = (job) => (job?.result ? `${job.id}/${job.result.id}` : null);

/** Another result brings its own finish; the same one brings it when another window changed it. */
function follow() {
  const next = ownerOf(state.job);
  if (next !== owner) {
    clearTimeout(timer);
    owner = next;
    finish.earlier = [];
    finish.later = [];
    finish.preview = null;
  } else if (isChanged()) return;
  const held = state.job?.result?.finish ?? NEUTRAL;
  const isNew = text(held) !== text(finish.current);
  finish.current = held;
  kept = text(held);
  emit("finish");
  if (isNew) finish.preview = null;
  if (isWanted()) ask();
  else showTones();
}

on("job", follow);
on("view", showTones);
on("strokes tool", () => isWanted() && ask());
addEventListener("beforeunload", (event) => isChanged() && event.preventDefault());
