// What the server is doing: the steps with a tick each, the share of the whole, and the time that is left.

import * as api from "./api.js";
import { byId, element, icon, readableSeconds } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { on, phase, setJob, state } from "./state.js";

const STEPS = [
  ["checking", "Looking for bad frames", (options) => options?.skip_bad],
  ["aligning", "Aligning the frames", (options) => options?.align !== false],
  ["reading", "Reading them", () => true],
  ["fusing", "Fusing", () => true],
  ["writing", "Writing the result", () => true],
  ["reporting", "Writing its report", () => true],
  ["tiles", "Preparing the view", () => true],
];
const box = byId("progress");
let began = null; // { time, fraction } when the present job was first seen at work
let lastStep = null;

/** Seconds left by the pace so far, or null while that would be a guess. */
function secondsLeft(fraction) {
  if (!began || fraction - began.fraction < 0.04) return null;
  const seconds = (performance.now() - began.time) / 1000;
  return (seconds / (fraction - began.fraction)) * (1 - fraction);
}

function draw() {
  const running = phase() === "running";
  box.hidden = !running;
  document.title = running && state.progress ? `${Math.round(state.progress.fraction * 100)} % · allfocus studio` : "allfocus studio";
  if (!running) {
    began = lastStep = null;
    box.replaceChildren();
    return;
  }
  const { job, progress } = state;
  if (job.state === "running" && progress) began ??= { time: performance.now(), fraction: progress.fraction };
  if (!box.firstChild) box.append(...build());
  update(job, progress);
}

function build() {
  const cancel = element("button.wide", { id: "cancel", onclick: () => stop(cancel) }, icon("close"), "Cancel");
  return [
    element("h2", {}, "Working"),
    element("progress", { id: "progress-bar", max: "1", "aria-label": "All steps together" }),
    element("p.progress-line", {}, element("strong", { id: "progress-share" }), element("span", { id: "progress-left" })),
    element("ol.steps", { id: "steps" }),
    cancel,
    element("p.hint", {}, "You may close this window: the server goes on, and the stack is listed in the library."),
  ];
}

async function stop(button) {
  const job = await attempt(() => api.cancel(state.job.id), button);
  if (job) setJob(job);
}

function update(job, progress) {
  const fraction = progress?.fraction ?? 0;
  const bar = byId("progress-bar");
  if (progress) bar.value = fraction;
  byId("progress-share").textContent = job.state === "queued" ? "Waiting for its turn" : `${Math.round(fraction * 100)} %`;
  const left = state.serverIsGone ? null : secondsLeft(fraction);
  byId("progress-left").textContent = state.serverIsGone ? "the server does not answer" : left === null ? "" : `about ${readableSeconds(Math.max(1, left)).replace(/\.\d/, "")} left`;
  const steps = STEPS.filter(([name, , happens]) => name === progress?.step || happens(job.options));
  const present = steps.findIndex(([name]) => name === progress?.step);
  byId("steps").replaceChildren(
    ...steps.map(([, title], place) => {
      const kind = place < present ? "done" : place === present ? "present" : "waiting";
      const count = kind === "present" && progress.count > 1 ? `${progress.done} of ${progress.count}` : "";
      return element(
        `li.${kind}`,
        { "aria-current": kind === "present" ? "step" : null },
        element("span.tick", {}, kind === "done" ? icon("check") : ""),
        element("span", {}, title),
        element("span.count", {}, count),
      );
    }),
  );
  if (present >= 0 && progress.step !== lastStep) {
    lastStep = progress.step;
    announce(steps[present][1]);
  }
}

on("job progress server", draw);
on("job", ({ before }) => {
  const { job } = state;
  if (!job || before?.id !== job.id || before.state === job.state) return;
  if (job.state === "done") announce("The result is ready.");
  if (job.state === "cancelled") announce("Cancelled.");
});
