// What the page knows, in one place. Modules read `state`, change it through the functions here, and listen for names.

import * as api from "./api.js";
import { asSentence } from "./elements.js";
import { phrase, told } from "./texts.js";

export const state = {
  limits: null,
  methods: [],
  job: null,
  progress: null,
  uploads: [],
  serverIsGone: false,
  view: "result",
  other: null, // the layer that the result is compared with, and that the brush paints from
  brush: { on: false, size: 40, hardness: 0.7, opacity: 1, mode: "replace", erases: false, flow: 1, stays: false, tolerance: 0.15, matches: false, pen: "size" },
};

const bus = new EventTarget();

/** Calls the listener whenever one of the named things changes. */
export function on(names, listener) {
  for (const name of names.split(" ")) bus.addEventListener(name, (event) => listener(event.detail));
}

export const emit = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

/** Which screen to show: "welcome", "prepare", "running" or "done". */
export function phase() {
  const { job, uploads } = state;
  if (!job) return uploads.length ? "prepare" : "welcome";
  if (job.state === "queued" || job.state === "running") return "running";
  return job.result ? "done" : "prepare"; // a run that failed keeps the result of the one before it
}

const MILLISECONDS_BEFORE_LISTENING_AGAIN = 2000;
let stopListening = null;
let listensTo = null;
let expected = null; // the id of a job that is about to be started
let shownRun = null; // which run of which job the page shows the result of

/** Whether frames are on their way to the server. */
export const isSending = () => state.uploads.some((upload) => !upload.problem);

const isAtWork = ({ state }) => state === "queued" || state === "running";

/** The other method that is at work for this job, or undefined. */
export const alternativeAtWork = (job) => job.alternatives?.find(isAtWork);

const worksOn = (job) => isAtWork(job) || Boolean(alternativeAtWork(job));

/** How often frames were arranged by hand; an upload that ends later must not undo it. */
export const arrangements = { count: 0 };

let lastTurn = Promise.resolve();

/** Sends orders of frames one after the other: of two under way at a time, either could be the server's last word. */
export function inTurn(send) {
  const sending = lastTurn.then(send);
  lastTurn = sending.catch(() => null);
  return sending;
}

/** Takes the job as the server describes it; opens or closes the stream of events as the job needs. */
export function setJob(job) {
  const before = state.job;
  state.job = job;
  state.progress = job && worksOn(job) ? (job.progress ?? (before?.id === job.id ? state.progress : null)) : null;
  const wanted = job && (worksOn(job) || expected === job.id);
  if (!wanted || listensTo !== job.id) endListening();
  if (wanted && !stopListening) follow(job.id);
  const run = job?.result && phase() === "done" ? `${job.id}/${job.result.first_revision}` : null;
  const isNew = run !== shownRun;
  shownRun = run;
  if (!job || before?.id !== job.id) state.brush.on = false;
  chooseOther();
  emit("job", { before });
  if (run && isNew) emit("result");
}

function endListening() {
  stopListening?.();
  stopListening = listensTo = null;
}

/** Listens to the present job before the action that starts it, so that no step of the work is missed. */
export async function listenFirst(action) {
  const { id } = state.job;
  expected = id;
  try {
    await new Promise((resolve) => {
      if (listensTo === id) resolve();
      else follow(id, resolve);
    });
    return await action();
  } finally {
    expected = null;
    if (state.job) setJob(state.job); // which stops listening when nothing was started
  }
}

/** Takes a description of the present job, unless it was sent before a stroke whose answer is here already. */
function takeNews(job) {
  if (state.job?.id === job.id && revisionOf(job) >= revisionOf(state.job)) setJob(job);
}

const revisionOf = (job) => job.result?.revision ?? 0;

/** Calls `began` when the first word came, or when none will. */
function follow(id, began = () => {}) {
  listensTo = id;
  stopListening = api.listen(id, {
    state: (job) => {
      began();
      takeNews(job);
    },
    ended: () => {
      began();
      if (listensTo !== id) return;
      endListening();
      setTimeout(() => state.job?.id === id && emit("stream-ended"), MILLISECONDS_BEFORE_LISTENING_AGAIN);
    },
    progress: (progress) => {
      if (state.job?.id !== id) return;
      state.progress = progress;
      emit("progress");
    },
    notice: ({ text }) => emit("message", { text: asSentence(told(text)), kind: "note" }),
  });
}

/** The layers that the result can be compared with or painted from, with names to show. */
export function otherLayers() {
  const { job } = state;
  if (!job?.result) return [];
  const frames = Object.fromEntries(job.frames.map((frame) => [`frame-${frame.id}`, frame.name]));
  const results = Object.fromEntries(job.results.map(({ id, name }) => [id, name]));
  const isRetouched = (id) => id === job.result.id || job.result.layers.includes(`retouched-${id}`);
  return job.result.layers.flatMap((layer) => {
    if (layer.startsWith("frame-")) return [{ layer, name: frames[layer] ?? layer.slice(6), kind: "frame" }];
    if (layer.startsWith("method-")) return [{ layer, name: layer.slice(7), kind: "method" }];
    if (layer.startsWith("retouched-")) return [{ layer, name: phrase("results.retouched", { name: results[layer.slice(10)] }), kind: "result" }];
    if (layer.startsWith("run-")) return [{ layer, name: isRetouched(layer) ? phrase("results.as-fused", { name: results[layer] }) : results[layer], kind: "result" }];
    return [];
  });
}

/** The layers that the brush can paint from: not results with strokes, which may change later. */
export const sourceLayers = () => otherLayers().filter(({ layer }) => !layer.startsWith("retouched-"));

/** The layer that the brush paints from while another is compared with. */
export const sourceOf = (layer) => layer?.replace(/^retouched-/, "") ?? null;

export const nameOf = (layer) => otherLayers().find((other) => other.layer === layer)?.name ?? layer;

function chooseOther() {
  const layers = otherLayers();
  if (!layers.some(({ layer }) => layer === state.other)) state.other = layers[0]?.layer ?? null;
}

export function setOther(layer) {
  state.other = layer;
  emit("view");
}

export function setView(view) {
  state.view = view;
  emit("view");
}

export function setBrush(change) {
  Object.assign(state.brush, change);
  state.brush.size = Math.min(1000, Math.max(1, Math.round(state.brush.size)));
  state.brush.hardness = Math.min(1, Math.max(0, Math.round(state.brush.hardness * 100) / 100));
  state.brush.opacity = Math.min(1, Math.max(0.01, Math.round(state.brush.opacity * 100) / 100));
  state.brush.flow = Math.min(1, Math.max(0.01, Math.round(state.brush.flow * 100) / 100));
  state.brush.tolerance = Math.min(1, Math.max(0.01, Math.round(state.brush.tolerance * 100) / 100));
  emit("brush");
}

/** Reloads what the server knows about the present job. */
export async function refreshJob() {
  if (state.job) takeNews(await api.readJob(state.job.id));
}
