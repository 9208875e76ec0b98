// The only module that talks to the server. Every failure becomes an ApiError with a sentence for the reader.

import { phrase, told } from "./texts.js";







export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

const WITHOUT_TEXT = {
  401: phrase("api.status-401"),
  403: phrase("api.status-403"),
  404: phrase("api.status-404"),
  409: phrase("api.status-409"),
  413: phrase("api.status-413"),
  415: phrase("api.status-415"),
  429: phrase("api.status-429"),
  507: phrase("api.status-507"),
};
const NO_ANSWER = phrase("api.no-answer");

/** The sentence of an error answer: the server's own where it sent one. */
function sentence(status, body) {
  try {
    const { error, code, detail } = JSON.parse(body);
    if (error) return told(error, { code, status });
    if (typeof detail === "string") return detail;
  } catch {
    // Not JSON: a proxy's page, say. The status has a sentence of its own.
  }
  return WITHOUT_TEXT[status] ?? phrase("api.failed", { status });
}

let onTokenWanted = () => {};
let onLost = () => {};

/** Sets what happens when the server does not answer. */
export function whenLost(listener) {
  onLost = listener;
}

/** Whether the server answers. */
export const isThere = () => fetch("/api/health").then(() => true, () => false);

/** Sets what happens when the server wants a token. */
export function whenTokenWanted(listener) {
  onTokenWanted = listener;
}

async function request(method, path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    onLost();
    throw new ApiError(NO_ANSWER);
  }
  if (answer.status === 401) onTokenWanted();
  if (!answer.ok) throw new ApiError(sentence(answer.status, await answer.text()), answer.status);
  return answer.status === 204 ? null : answer.json();
}

const job = (id) => `/api/jobs/${encodeURIComponent(id)}`;

export const health = () => request("GET", "/api/health");
export const limits = () => request("GET", "/api/limits");
export const description = () => request("GET", "/openapi.json");
export const methods = () => request("GET", "/api/methods");
export const reports = () => request("GET", "/api/reports");
export const listJobs = () => request("GET", "/api/jobs");
export const createJob = (name) => request("POST", "/api/jobs", { name });
export const createSample = (scene) => request("POST", "/api/samples", { scene });
export const readJob = (id) => request("GET", job(id));
export const deleteJob = (id) => request("DELETE", job(id));
export const addFolder = (id, path) => request("POST", `${job(id)}/folder`, { path });
export const removeFrame = (id, frame) => request("DELETE", `${job(id)}/frames/${encodeURIComponent(frame)}`);
export const start = (id, options) => request("POST", `${job(id)}/start`, options);
export const cancel = (id) => request("POST", `${job(id)}/cancel`);
export const addAlternative = (id, method) => request("POST", `${job(id)}/alternatives`, { method });
export const addStroke = (id, stroke) => request("POST", `${job(id)}/strokes`, stroke);
export const hideStroke = (id, stroke, hidden) => request("PUT", `${job(id)}/strokes/${encodeURIComponent(stroke)}`, { hidden });
export const undo = (id) => request("POST", `${job(id)}/undo`);
export const redo = (id) => request("POST", `${job(id)}/redo`);
export const faults = (id) => request("GET", `${job(id)}/faults`);
export const judgeFault = (id, fault, dismissed) => request("PUT", `${job(id)}/faults/${encodeURIComponent(fault)}`, { dismissed });
const result = (id, name) => `${job(id)}/results/${encodeURIComponent(name)}`;
export const makeSlabs = (id, size, overlap) => request("POST", `${job(id)}/slabs`, { size, overlap });
export const showChannels = (id, channels) => request("PUT", `${job(id)}/channels`, { channels });
export const openResult = (id, name) => request("POST", `${result(id, name)}/open`);
export const changeResult = (id, name, change) => request("PUT", result(id, name), change);
export const removeResult = (id, name) => request("DELETE", result(id, name));
export const library = () => request("GET", "/api/library");
export const queue = () => request("GET", "/api/queue");
export const orderQueue = (jobs) => request("PUT", "/api/queue", { jobs });
export const pauseQueue = (paused) => request("PUT", "/api/queue/state", { paused });
export const rename = (id, name) => request("PUT", `${job(id)}/name`, { name });
const intake = (id) => `/api/intakes/${encodeURIComponent(id)}`;
export const createIntake = (about) => request("POST", "/api/intakes", about);
export const readIntake = (id) => request("GET", intake(id));
export const deleteIntake = (id) => request("DELETE", intake(id));
export const cutIntake = (id, how, signal) => request("GET", `${intake(id)}/stacks?${new URLSearchParams(how)}`, undefined, signal);
export const takeStack = (id, name, frames, which = {}) => request("POST", `${intake(id)}/jobs`, { name, frames, ...which });
export const preferences = () => request("GET", "/api/preferences");
export const rememberOptions = (options) => request("PUT", "/api/preferences/options", options);
export const keepPreset = (name, options) => request("PUT", `/api/presets/${encodeURIComponent(name)}`, options);
export const deletePreset = (name) => request("DELETE", `/api/presets/${encodeURIComponent(name)}`);
export const findFrames = (id, path) => request("POST", `${job(id)}/find-frames`, { path });
export const projectUrl = (id, frames) => `${job(id)}/project?frames=${frames}`;
export const formats = () => request("GET", "/api/formats");
export const keepFinish = (id, finish) => request("PUT", `${job(id)}/finish`, finish);
export const previewFinish = (id, finish) => request("POST", `${job(id)}/finish/preview`, finish);
export const pickGrey = (id, x, y) => request("POST", `${job(id)}/finish/grey`, { x, y });
export const finishedTileUrl = (id, level, column, row, revision) => `${job(id)}/finished/${level}/${column}/${row}?revision=${revision}`;
export const relief = (id, side) => request("GET", `${job(id)}/relief?side=${side}`);

/** Sends the order of the frames and which of them take part. */
export const orderFrames = (id, frames) =>
  request("PUT", `${job(id)}/frames`, { frames: frames.map((frame) => ({ id: frame.id, included: frame.included })) });

export const thumbnailUrl = (id, frame) => `${job(id)}/frames/${encodeURIComponent(frame)}/thumbnail`;
export const downloadUrl = (id, format, bits) => `${job(id)}/download?format=${format}&bits=${bits}`;
export const mapUrl = (id, name) => `${job(id)}/maps/${name}.png`;
export const reportUrl = (id) => `${job(id)}/report`;
export const tileUrl = (id, layer, level, column, row, revision) =>
  `${job(id)}/tiles/${encodeURIComponent(layer)}/${level}/${column}/${row}?revision=${revision}`;

/** A tile as the brush looks at it to stay within one thing: smoothed, and without loss. */
export const guideUrl = (...place) => `${tileUrl(...place)}&smoothed=true`;

/** The result as a file: { name, content }. */
export async function exportFile(id, { format, bits, quality, profile, size, amount, name }) {
  const wanted = new URLSearchParams({ format, bits, quality, profile, name, ...(size !== "full" && { [size]: amount }) });
  const answer = await fetch(`${job(id)}/download?${wanted}`).catch(() => {
    onLost();
    throw new ApiError(NO_ANSWER);
  });
  if (!answer.ok) throw new ApiError(sentence(answer.status, await answer.text()), answer.status);
  const [, encoded, plain] = /filename\*=utf-8''([^;]+)|filename="([^"]+)"/i.exec(answer.headers.get("content-disposition") ?? "") ?? [];
  return { name: encoded ? decodeURIComponent(encoded) : (plain ?? "fused"), content: await answer.blob() };
}

/** Why the server refuses an address: its own sentence. */
export async function refusalOf(address) {
  const answer = await fetch(address).catch(() => {
    onLost();
    throw new ApiError(NO_ANSWER);
  });
  return answer.ok ? null : sentence(answer.status, await answer.text());
}

/** One tile as a bitmap that is ready to draw; decoded outside the main thread. */
export async function readTile(url, signal) {
  const answer = await fetch(url, { signal }).catch((problem) => {
    if (problem.name === "AbortError") throw problem;
    onLost();
    throw new ApiError(NO_ANSWER);
  });
  if (!answer.ok) throw new ApiError(sentence(answer.status, await answer.text()), answer.status);
  return createImageBitmap(await answer.blob());
}

/** `which` names a position and a time of a file with several. */
export const uploadFrame = (id, file, onProgress, which = {}) => {
  const wanted = Object.entries({ name: file.name, ...which }).filter(([, value]) => value !== null);
  return upload(`${job(id)}/frames?${new URLSearchParams(wanted)}`, file, onProgress);
};
export const uploadToIntake = (id, path, file, onProgress) => upload(`${intake(id)}/files?path=${encodeURIComponent(path)}`, file, onProgress);
export const uploadFound = (id, file) => upload(`${job(id)}/found-frames?name=${encodeURIComponent(file.name)}`, file, () => {});
export const uploadProject = (file, onProgress) => upload(`/api/projects?name=${encodeURIComponent(file.name)}`, file, onProgress);

/** Sends one file and reports the share that has left this machine. fetch cannot report that, so this is XHR. */
function upload(address, file, onProgress) {
  return new Promise((resolve, reject) => {
    const exchange = new XMLHttpRequest();
    exchange.open("POST", address);
    exchange.setRequestHeader("Content-Type", "application/octet-stream");
    exchange.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    exchange.onerror = () => {
      onLost();
      reject(new ApiError(phrase("api.not-sent", { name: file.name, reason: NO_ANSWER })));
    };
    exchange.onload = () => {
      if (exchange.status === 401) onTokenWanted();
      if (exchange.status >= 200 && exchange.status < 300) resolve(JSON.parse(exchange.responseText));
      else reject(new ApiError(sentence(exchange.status, exchange.responseText), exchange.status));
    };
    exchange.send(file);
  });
}

/**
 * Listens to a job: { state, progress, notice } are called with what the server sends, `ended` when it sends no more.
 * Returns a function that stops.
 */
export const listen = (id, handlers) => listenAt(`${job(id)}/events`, handlers);
export const listenToLibrary = (handlers) => listenAt("/api/library/events", handlers);

function listenAt(address, { ended, ...handlers }) {
  const source = new EventSource(address);
  source.onerror = async () => {
    // The browser itself connects again after a broken line, and does not after a refusal.
    if (source.readyState === EventSource.CLOSED) ended();
    else if (!(await isThere())) onLost();
  };
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  return () => source.close();
}
