// Earlier stacks: those that the server still keeps, to open again or to delete.

import * as api from "./api.js";
import { byId, element, icon, plural, readableBytes, readableHours } from "./elements.js";
import { attempt } from "./messages.js";
import { on, phase, state } from "./state.js";

const STATES = { new: "not fused yet", queued: "waiting", running: "at work", done: "fused", failed: "failed", cancelled: "cancelled" };

export const addressOf = (job) => `#/stack/${job.id}`;

/** "2026-11-15T10:03:00Z" -> what the reader's own language writes. */
export function readableTime(text) {
  const time = new Date(typeof text === "number" ? text * 1000 : text);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

function cover(job) {
  if (job.state === "done" && job.result) return api.tileUrl(job.id, "result", job.result.levels - 1, 0, 0, job.result.revision);
  return job.frames.length ? api.thumbnailUrl(job.id, job.frames[0].id) : null;
}

function row(job, redraw) {
  const picture = cover(job);
  const remove = element(
    "button.plain",
    { "aria-label": `Delete ${job.name}`, title: "Delete", onclick: () => confirmDeletion(job, redraw, remove) },
    icon("trash"),
  );
  return element(
    "li.stack",
    {},
    element(
      "a",
      { href: addressOf(job), onclick: () => byId("stacks").close() },
      element("span.cover", {}, picture ? element("img", { src: picture, alt: "", loading: "lazy" }) : icon("frames")),
      element(
        "span.about",
        {},
        element("strong", {}, job.name || "Stack"),
        element("small", {}, `${plural(job.frames.length, "frame")}, ${STATES[job.state] ?? job.state}`),
        element("small", {}, readableTime(job.created)),
      ),
    ),
    remove,
  );
}

async function confirmDeletion(job, redraw, button) {
  if (!window.confirm(`Delete ${job.name || "this stack"} with its frames, result and brush strokes from the server?`)) return;
  await attempt(() => api.deleteJob(job.id), button);
  if (state.job?.id === job.id) location.hash = "#/";
  await redraw();
}

/** Lists the stacks; `removed` is called when one was deleted. */
async function fill(list, most = Infinity, removed = () => {}) {
  const jobs = (await attempt(api.listJobs)) ?? [];
  list.replaceChildren(...jobs.slice(0, most).map((job) => row(job, () => fill(list, most, removed).then(removed))));
  if (!jobs.length) list.append(element("li.hint", {}, "No stacks yet."));
  return jobs.length;
}

export async function openStacks() {
  byId("stacks").showModal();
  await fill(byId("stack-list"), Infinity, drawRoom);
  await drawRoom();
}

/** How much of its room the server uses, and how long it keeps a stack. */
async function drawRoom() {
  const limits = await attempt(api.limits);
  if (!limits) return;
  const { used_bytes, disk_bytes, lifetime_hours } = limits;
  byId("stack-room").textContent = `${readableBytes(used_bytes)} of ${readableBytes(disk_bytes)} used. A stack is deleted ${readableHours(lifetime_hours)} after its last change.`;
}

async function drawRecent() {
  if (phase() !== "welcome") return;
  byId("recent").hidden = (await fill(byId("recent-list"), 6)) === 0;
}

byId("stacks-button").addEventListener("click", openStacks);
on("job", drawRecent);
