// The frames as cards: thumbnails in order, with exclude, remove and reorder by mouse, touch buttons or keyboard.

import * as api from "./api.js";
import { byId, element, icon, plural, readableBytes } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { arrangements, emit, inTurn, on, phase, setJob, setOther, setView, state } from "./state.js";
import { phrase, told } from "./texts.js";
import { showThumbnail } from "./thumbnails.js";
import { dismissUpload, sendAgain } from "./uploads.js";

const list = byId("frame-list");
const pictures = new Map(); // the <img> of each frame is kept, because a new one would flash while it decodes
const unreadable = new Map(); // frame id -> why it has no thumbnail
let dragged = null;
let isOutdated = false; // the cards changed while one was dragged; drawing them anew would have ended that

const locked = () => phase() === "running";

/** Whether the frames can be changed: before the result, and beside it while its settings are open. */
const showsTools = () => phase() === "prepare" || (phase() === "done" && document.body.dataset.tool === "settings");

/** Sends a new order; the page shows it at once and takes the server's answer afterwards. */
async function sendFrames(frames) {
  const { job } = state;
  arrangements.count += 1;
  setJob({ ...job, frames });
  const answer = await attempt(() => inTurn(() => api.orderFrames(job.id, frames)));
  if (state.job?.id === job.id) setJob(answer ?? (await api.readJob(job.id)));
}

async function move(frame, position) {
  const frames = state.job.frames.filter((other) => other.id !== frame.id);
  const place = Math.min(frames.length, Math.max(0, position));
  if (locked() || state.job.frames[place]?.id === frame.id) return;
  frames.splice(place, 0, frame);
  const sending = sendFrames(frames);
  focusCard(frame.id);
  announce(phrase("frames.moved", { name: frame.name, place: place + 1, count: frames.length }));
  await sending;
  focusCard(frame.id);
}

function focusCard(id) {
  list.querySelector(`[data-frame="${CSS.escape(id)}"] .card-picture`)?.focus({ preventScroll: false });
}

function setIncluded(frame, included) {
  announce(included ? phrase("frames.takes-part", { name: frame.name }) : phrase("frames.is-left-out", { name: frame.name }));
  return sendFrames(state.job.frames.map((other) => (other.id === frame.id ? { ...other, included } : other)));
}

async function remove(frame) {
  const place = state.job.frames.findIndex((other) => other.id === frame.id);
  const job = await attempt(() => api.removeFrame(state.job.id, frame.id));
  if (!job) return;
  setJob(job);
  announce(phrase("frames.removed", { name: frame.name, frames: plural(job.frames.length, "frame") }));
  const next = job.frames[Math.min(place, job.frames.length - 1)];
  if (next) focusCard(next.id);
}

function onCardKey(event, frame, place) {
  const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
  const step = steps[event.key];
  if (step && (event.altKey || event.shiftKey)) showsTools() && move(frame, place + step);
  else if (step) state.job.frames[place + step] && focusCard(state.job.frames[place + step].id);
  else if (event.key === "Home" && event.altKey) showsTools() && move(frame, 0);
  else if (event.key === "End" && event.altKey) showsTools() && move(frame, state.job.frames.length - 1);
  else if (event.key === "Delete" || event.key === "Backspace") showsTools() && remove(frame);
  else if (event.key.toLowerCase() === "x" && phase() === "prepare") setIncluded(frame, !frame.included);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function onPick(frame) {
  const layer = `frame-${frame.id}`;
  if (phase() !== "done" || !state.job.result.layers.includes(layer)) return;
  setOther(layer);
  emit("show-picture");
  if (!state.brush.on && !["slider", "side", "flicker", "difference"].includes(state.view)) setView("slider");
}

function picture(frame) {
  if (frame.absent) return icon("frames");
  const address = api.thumbnailUrl(state.job.id, frame.id);
  if (!pictures.has(address)) {
    const onerror = () => attempt(() => explain(frame, address));
    pictures.set(address, showThumbnail(element("img", { alt: "", draggable: "false", onerror }), address));
  }
  return pictures.get(address);
}

/** A file whose header reads well may still be torn; the thumbnail's refusal says so before the fusion does. */
async function explain(frame, address) {
  const refusal = await api.refusalOf(address);
  if (refusal) unreadable.set(frame.id, refusal);
  draw();
}

function card(known, place, count) {
  const frame = { ...known, problem: known.problem ? told(known.problem) : unreadable.get(known.id) };
  const chosen = phase() === "done" && state.other === `frame-${frame.id}`;
  const size = phrase("page.size", { width: frame.width, height: frame.height, bits: frame.bit_depth });
  const button = (label, sign, action, disabled = false) =>
    element("button.plain", { "aria-label": `${label}: ${frame.name}`, title: label, onclick: action, disabled: disabled || locked() }, icon(sign));
  const kind = ["li.card", frame.included ? "" : "excluded", frame.problem ? "problem" : "", chosen ? "chosen" : ""];
  const node = element(
    kind.filter(Boolean).join("."),
    { "data-frame": frame.id, draggable: !locked() && "true" },
    element(
      "button.card-picture",
      {
        "aria-label": [phrase("frames.card", { place: place + 1, count, name: frame.name }), size, !frame.included && phrase("frames.left-out"), frame.problem].filter(Boolean).join(", "),
        "aria-pressed": phase() === "done" ? String(chosen) : null,
        title: `${frame.name}\n${size}, ${readableBytes(frame.bytes)}`,
        onclick: () => onPick(frame),
        onkeydown: (event) => onCardKey(event, frame, place),
      },
      picture(frame),
      element("span.card-number", {}, String(place + 1)),
    ),
    element("span.card-name", { title: frame.name }, frame.name),
    frame.problem && element("span.card-problem", {}, frame.problem),
    element(
      "span.card-tools",
      {},
      element(
        "label.use",
        { title: frame.included ? phrase("frames.used") : phrase("frames.unused") },
        element("input", {
          type: "checkbox",
          checked: frame.included,
          disabled: locked(),
          "aria-label": phrase("frames.use-name", { name: frame.name }),
          onchange: (event) => setIncluded(frame, event.target.checked),
        }),
        element("span", {}, phrase("frames.use")),
      ),
      button(phrase("frames.earlier"), "earlier", () => move(frame, place - 1), place === 0),
      button(phrase("frames.later"), "later", () => move(frame, place + 1), place === count - 1),
      button(phrase("frames.remove"), "trash", () => remove(frame)),
    ),
  );
  addDragging(node, frame);
  return node;
}

function addDragging(node, frame) {
  const isAfter = (event) => {
    const box = node.getBoundingClientRect();
    const asColumn = phase() === "done";
    return asColumn ? event.clientY > box.top + box.height / 2 : event.clientX > box.left + box.width / 2;
  };
  node.addEventListener("dragstart", (event) => {
    dragged = frame;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", frame.name);
    node.classList.add("dragged");
  });
  node.addEventListener("dragend", () => {
    dragged = null;
    node.classList.remove("dragged");
    clearMarks();
    if (isOutdated) draw();
  });
  node.addEventListener("dragover", (event) => {
    if (!dragged) return;
    event.preventDefault();
    clearMarks();
    node.classList.add(isAfter(event) ? "drop-after" : "drop-before");
  });
  node.addEventListener("drop", (event) => {
    if (!dragged) return;
    event.preventDefault();
    event.stopPropagation();
    const moved = dragged;
    dragged = null;
    clearMarks();
    if (moved.id === frame.id) return;
    const others = state.job.frames.filter((other) => other.id !== moved.id);
    move(moved, others.findIndex((other) => other.id === frame.id) + (isAfter(event) ? 1 : 0));
  });
}

function clearMarks() {
  for (const marked of list.querySelectorAll(".drop-before, .drop-after")) marked.classList.remove("drop-before", "drop-after");
}

/** Whether a card of this page is being dragged, and not a file from outside. */
export const isDraggingCard = () => dragged !== null;

function uploadCard(upload) {
  if (upload.problem) {
    return element(
      "li.card.problem.failed",
      {},
      element("span.card-picture.empty", {}, icon("warning")),
      element("span.card-name", { title: upload.name }, upload.name),
      element("span.card-problem", { role: "alert" }, upload.problem),
      element(
        "span.row",
        {},
        upload.mayHelp && element("button.small", { "aria-label": phrase("frames.send-again-name", { name: upload.name }), onclick: () => attempt(() => sendAgain(upload)) }, phrase("frames.send-again")),
        element("button.small", { "aria-label": phrase("frames.dismiss-name", { name: upload.name }), onclick: () => dismissUpload(upload) }, phrase("frames.dismiss")),
      ),
    );
  }
  const bar = element("progress", { max: "1", "aria-label": phrase("frames.sending-name", { name: upload.name }) });
  if (upload.share < 1) bar.value = upload.share; // without a value it shows that something goes on
  upload.bar = bar;
  return element(
    "li.card.sending",
    {},
    element("span.card-picture.empty", {}, bar),
    element("span.card-name", { title: upload.name }, upload.name),
    element("span.card-note", {}, upload.share >= 1 ? phrase("frames.checking") : upload.share > 0 ? phrase("frames.sending") : phrase("frames.waiting")),
  );
}

function draw() {
  isOutdated = dragged !== null;
  if (isOutdated) return;
  const frames = state.job?.frames ?? [];
  const focused = document.activeElement?.closest?.("[data-frame]")?.dataset.frame;
  const label = document.activeElement?.getAttribute?.("aria-label");
  list.replaceChildren(
    ...frames.map((frame, place) => card(frame, place, frames.length)),
    ...state.uploads.map(uploadCard),
  );
  if (focused) {
    const inside = list.querySelector(`[data-frame="${CSS.escape(focused)}"]`);
    const same = label && [...(inside?.querySelectorAll("[aria-label]") ?? [])].find((node) => node.getAttribute("aria-label") === label);
    (same && !same.disabled ? same : inside?.querySelector(".card-picture"))?.focus({ preventScroll: true });
  }
  const used = frames.filter((frame) => frame.included).length;
  const sending = state.uploads.filter((upload) => !upload.problem).length;
  byId("frame-count").textContent = sending
    ? phrase("frames.sent", { done: frames.length, count: frames.length + sending })
    : used === frames.length
      ? plural(frames.length, "frame")
      : phrase("frames.some", { used, frames: plural(frames.length, "frame") });
}

on("job uploads view", draw);
on("server", () => {
  if (state.serverIsGone) return;
  for (const [address, image] of pictures) if (image.complete && !image.naturalWidth) pictures.delete(address);
  draw();
});
on("view", () => list.querySelector(".card.chosen")?.scrollIntoView({ block: "nearest" }));
on("upload", (upload) => {
  if (upload.bar && upload.share < 1) upload.bar.value = upload.share;
  else emit("uploads");
});
