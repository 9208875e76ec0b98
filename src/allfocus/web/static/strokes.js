// Strokes on their way to the server: sent one after the other, undone and redone in the same order.

import * as api from "./api.js";
import { plural } from "./elements.js";
import { announce, attempt, say } from "./messages.js";
import { areaOfStroke } from "./painting.js";
import { emit, nameOf, on, phase, refreshJob, setJob, state } from "./state.js";
import { forgetDabs } from "./stroke_masks.js";
import { phrase } from "./texts.js";
import { invalidate, view } from "./viewer.js";

let pending = []; // strokes whose new tiles have not arrived
let working = Promise.resolve();
let waitingCalls = 0;

export const isSending = () => waitingCalls > 0;

/** What is sent; coordinates as on the canvas: the first pixel covers 0 to 1. */
const asSent = ({ source, points, radius, hardness, opacity = 1, mode = "replace", flow = 1, tolerance = null, pen = "none", pressures = [], gain = 1, tint = [], fault }) => ({
  ...{ source, points, radius, hardness, opacity, mode, flow, tolerance, pen, pressures, gain, tint },
  ...(fault && { fault }),
});

/** Runs calls that change the result one after the other, so that their order is the order of the gestures. */
function inTurn(action) {
  waitingCalls += 1;
  emit("strokes");
  working = working.then(() => attempt(action)).finally(() => {
    waitingCalls -= 1;
    emit("strokes");
  });
  return working;
}

function takeChange(job, { revision, area, ...rest }) {
  if (state.job?.id !== job.id) return;
  const isKnown = view.store?.edit(revision, area);
  setJob({ ...state.job, ...rest, result: { ...state.job.result, revision } });
  invalidate();
  if (!isKnown) refreshJob(); // another window painted too
}

export function send(stroke) {
  const { job } = state;
  pending.push(stroke);
  return inTurn(async () => {
    try {
      const answer = await api.addStroke(job.id, asSent(stroke));
      stroke.revision = answer.revision;
      stroke.area = answer.area;
      takeChange(job, { revision: answer.revision, area: answer.area, strokes: [...state.job.strokes, answer.stroke], redo_count: 0 });
      announce(phrase("strokes.painted", { name: nameOf(stroke.source) }));
    } catch (problem) {
      pending = pending.filter((other) => other !== stroke);
      invalidate();
      if (problem.status === 0) say(phrase("strokes.lost"), "bad");
      throw problem;
    }
  });
}

function stepBack(call, word) {
  const { job } = state;
  return inTurn(async () => {
    const { revision, area, strokes, redo_count } = await call(job.id);
    pending = [];
    takeChange(job, { revision, area, strokes, redo_count });
    announce(`${word} ${phrase("retouch.all", { strokes: plural(strokes.filter(({ hidden }) => !hidden).length, "stroke") })}.`);
  });
}

export const undo = () => phase() === "done" && state.job.strokes.length > 0 && stepBack(api.undo, phrase("strokes.undone"));
export const redo = () => phase() === "done" && state.job.redo_count > 0 && stepBack(api.redo, phrase("strokes.redone"));

/** Leaves a stroke out of the picture for now, or takes it in again. */
export const hide = (stroke, hidden) => stepBack((id) => api.hideStroke(id, stroke, hidden), hidden ? phrase("strokes.hidden") : phrase("strokes.shown"));

/** The strokes that the tiles of a level do not show yet; they are drawn on top. */
export function notInTiles(level) {
  const isShown = (stroke) => stroke.revision && view.store.isFresh("result", level, stroke.area ?? areaOfStroke(stroke), stroke.revision);
  for (const stroke of pending.filter(isShown)) forgetDabs(stroke);
  pending = pending.filter((stroke) => !isShown(stroke));
  return pending;
}

// Strokes are painted one after the other; those that wait would be lost with the page.
addEventListener("beforeunload", (event) => isSending() && event.preventDefault());
on("result", () => {
  pending = [];
});
