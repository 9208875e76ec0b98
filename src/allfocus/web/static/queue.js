// The queue: what is fused now and what waits, with its order, a pause, a way out for each, and the time it takes.

import * as api from "./api.js";
import { byId, element, icon, plural, readableSeconds } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { addressOf } from "./stacks.js";
import { on, state } from "./state.js";

let queue = { paused: false, running: [], waiting: [], seconds_left: 0 };

const about = (seconds) => (seconds === null ? "" : `about ${readableSeconds(Math.max(1, seconds)).replace(/\.\d/, "")}`);

/** "2 at work, 5 wait, about 12 min left". */
function sentence({ running, waiting, seconds_left, paused }) {
  const parts = [running.length && `${running.length} at work`, waiting.length && `${waiting.length} ${waiting.length === 1 ? "waits" : "wait"}`].filter(Boolean);
  if (paused) parts.push("paused");
  else if (parts.length && seconds_left !== null) parts.push(`${about(seconds_left)} left`);
  return parts.join(", ");
}

async function move(place, step) {
  const order = queue.waiting.map(({ id }) => id);
  const [id] = order.splice(place, 1);
  order.splice(place + step, 0, id);
  const news = await attempt(() => api.orderQueue(order));
  if (!news) return;
  drawQueue(news);
  announce(`${news.waiting.find((work) => work.id === id)?.name ?? "It"} is number ${order.indexOf(id) + 1} of those that wait.`);
  const labels = step < 0 ? ["Earlier", "Later"] : ["Later", "Earlier"];
  const buttons = labels.map((label) => document.querySelector(`[data-work="${CSS.escape(id)}"] button[title="${label}"]`));
  buttons.find((button) => button && !button.disabled)?.focus();
}

function row(work, place, count) {
  const runs = place < 0;
  const name = work.alternative ? `${work.name} (${work.method})` : work.name;
  const button = (label, sign, action, disabled = false) => element("button.plain", { "aria-label": `${label}: ${name}`, title: label, onclick: action, disabled }, icon(sign));
  const bar = element("progress", { max: "1", value: runs ? work.fraction : 0, "aria-label": `Progress of ${name}` });
  return element(
    `li.work.${runs ? "runs" : "waits"}`,
    { "data-work": work.id },
    element("span.work-place", {}, runs ? "" : `${place + 1}`),
    element("a", { href: addressOf(work) }, name || "Stack"),
    runs ? bar : element("span"),
    element("small", {}, work.seconds_left === null || (queue.paused && !runs) ? "" : runs ? `${about(work.seconds_left)} left` : `done in ${about(work.seconds_left)}`),
    element(
      "span.library-tools",
      {},
      !runs && button("Earlier", "up", () => move(place, -1), place === 0),
      !runs && button("Later", "down", () => move(place, 1), place === count - 1),
      button("Cancel", "close", (event) => attempt(() => api.cancel(work.id), event.currentTarget)),
    ),
  );
}

/** Draws what runs and waits. */
export function drawQueue(news) {
  queue = news;
  const { running, waiting, paused } = news;
  byId("queue").hidden = !running.length && !waiting.length && !paused;
  byId("queue-sentence").textContent = sentence(news);
  const button = byId("queue-pause");
  button.replaceChildren(icon(paused ? "play" : "pause"), paused ? "Go on" : "Pause");
  button.setAttribute("aria-pressed", String(paused));
  button.title = paused ? "Begin the next stack" : "Begin no further stack; what is at work goes on";
  const focused = document.activeElement?.closest?.("[data-work]")?.dataset.work;
  const label = document.activeElement?.getAttribute?.("aria-label");
  byId("queue-list").replaceChildren(...running.map((work) => row(work, -1, 0)), ...waiting.map((work, place) => row(work, place, waiting.length)));
  if (focused && label) {
    const inside = document.querySelector(`[data-work="${CSS.escape(focused)}"]`);
    [...(inside?.querySelectorAll("[aria-label]") ?? [])].find((node) => node.getAttribute("aria-label") === label)?.focus();
  }
}

/** Moves the bar of a stack at work. */
export function showProgress({ id, fraction }) {
  const bar = document.querySelector(`[data-work="${CSS.escape(id)}"] progress`);
  if (bar) bar.value = fraction;
}

byId("queue-pause").addEventListener("click", async () => {
  const news = await attempt(() => api.pauseQueue(!queue.paused), byId("queue-pause"));
  if (!news) return;
  drawQueue(news);
  byId("queue-pause").focus();
  announce(news.paused ? "The queue is paused." : "The queue goes on.");
});

/** On the page of a stack that waits: for what, and for how long. */
async function sayWhyItWaits() {
  const { job } = state;
  if (job?.state !== "queued") return;
  const { paused, running, waiting } = await api.queue();
  const place = waiting.findIndex(({ id }) => id === job.id);
  const line = byId("progress-left");
  if (place < 0 || !line || state.job?.id !== job.id || state.job.state !== "queued") return;
  const before = running.length + place;
  const rest = waiting[place].seconds_left;
  line.textContent = paused ? "the queue is paused; go on in the library" : `${plural(before, "stack")} before it${rest === null ? "" : `, done in ${about(rest)}`}`;
}

on("job", () => sayWhyItWaits().catch(() => null));
