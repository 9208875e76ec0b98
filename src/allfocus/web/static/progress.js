// What the server is doing: the steps with a tick each, the share of the whole, and the time that is left.

import * as api from "./api.js";
import { byId, element, icon, roundSeconds } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { on, phase, setJob, state } from "./state.js";
import { phrase } from "./texts.js";

const STEPS = [
  ["checking", phrase("progress.checking"), (options) => options?.skip_bad],
  ["aligning", phrase("progress.aligning"), (options) => options?.align !== false],
  ["reading", phrase("progress.reading"), () => true],
  ["fusing", phrase("progress.fusing"), () => true],
  ["comparing", phrase("progress.comparing"), () => true],
  ["mending", phrase("progress.mending"), () => false], // only where something was lost
  ["measuring", phrase("progress.measuring"), () => true],
  ["writing", phrase("progress.writing"), () => true],
  ["reporting", phrase("progress.reporting"), () => true],
  ["tiles", phrase("progress.tiles"), () => true],
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
  const isNew = !box.firstChild;
  if (isNew) box.append(...build());
  update(job, progress);
  if (isNew) requestAnimationFrame(() => box.scrollIntoView({ block: "nearest" })); // narrow windows have it above the frames
}

function build() {
  const cancel = element("button.wide", { id: "cancel", onclick: () => stop(cancel) }, icon("close"), phrase("page.cancel"));
  return [
    element("h2", {}, phrase("progress.heading")),
    element("progress", { id: "progress-bar", max: "1", "aria-label": phrase("progress.bar") }),
    element("p.progress-line", {}, element("strong", { id: "progress-share" }), element("span", { id: "progress-left" })),
    element("ol.steps", { id: "steps" }),
    cancel,
    element("p.hint", {}, phrase("progress.hint")),
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
  byId("progress-share").textContent = job.state === "queued" ? phrase("progress.waiting") : `${Math.round(fraction * 100)} %`;
  const left = state.serverIsGone ? null : secondsLeft(fraction);
  byId("progress-left").textContent = state.serverIsGone ? phrase("progress.gone") : left === null ? "" : phrase("queue.left", { time: phrase("queue.about", { time: roundSeconds(left) }) });
  const steps = STEPS.filter(([name, , happens]) => name === progress?.step || happens(job.options));
  const present = steps.findIndex(([name]) => name === progress?.step);
  byId("steps").replaceChildren(
    ...steps.map(([, title], place) => {
      const kind = place < present ? "done" : place === present ? "present" : "waiting";
      const count = kind === "present" && progress.count > 1 ? phrase("progress.count", { done: progress.done, count: progress.count }) : "";
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
  if (job.state === "done") announce(phrase("progress.ready"));
  if (job.state === "cancelled") announce(phrase("progress.cancelled"));
});
