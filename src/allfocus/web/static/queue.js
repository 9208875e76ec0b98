// The queue: what is fused now and what waits, with its order, a pause, a way out for each, and the time it takes.

import * as api from "./api.js";
import { byId, element, icon, plural, roundSeconds } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { addressOf } from "./stacks.js";
import { on, state } from "./state.js";
import { phrase } from "./texts.js";

let queue = { paused: false, running: [], waiting: [], seconds_left: 0 };

const about = (seconds) => (seconds === null ? "" : phrase("queue.about", { time: roundSeconds(seconds) }));

/** "2 at work, 5 wait, about 12 min left". */
function sentence({ running, waiting, seconds_left, paused }) {
  const parts = [running.length && phrase("queue.at-work", { count: running.length }), waiting.length && phrase("queue.wait", { count: waiting.length })].filter(Boolean);
  if (paused) parts.push(phrase("queue.paused-short"));
  else if (parts.length && seconds_left !== null) parts.push(phrase("queue.left", { time: about(seconds_left) }));
  return parts.join(", ");
}

async function move(place, step) {
  const order = queue.waiting.map(({ id }) => id);
  const [id] = order.splice(place, 1);
  order.splice(place + step, 0, id);
  const news = await attempt(() => api.orderQueue(order));
  if (!news) return;
  drawQueue(news);
  announce(phrase("queue.moved", { name: news.waiting.find((work) => work.id === id)?.name ?? phrase("page.stack"), place: order.indexOf(id) + 1 }));
  const labels = [step < 0 ? "up" : "down", step < 0 ? "down" : "up"];
  const buttons = labels.map((label) => document.querySelector(`[data-work="${CSS.escape(id)}"] button[data-sign="${label}"]`));
  buttons.find((button) => button && !button.disabled)?.focus();
}

function row(work, place, count) {
  const runs = place < 0;
  const name = work.alternative ? `${work.name} (${work.method})` : work.name;
  const button = (label, sign, action, disabled = false) => element("button.plain", { "aria-label": `${label}: ${name}`, title: label, "data-sign": sign, onclick: action, disabled }, icon(sign));
  const bar = element("progress", { max: "1", value: runs ? work.fraction : 0, "aria-label": phrase("queue.progress", { name }) });
  return element(
    `li.work.${runs ? "runs" : "waits"}`,
    { "data-work": work.id },
    element("span.work-place", {}, runs ? "" : `${place + 1}`),
    element("a", { href: addressOf(work) }, name || phrase("page.stack")),
    runs ? bar : element("span"),
    element("small", {}, work.seconds_left === null || (queue.paused && !runs) ? "" : runs ? phrase("queue.left", { time: about(work.seconds_left) }) : phrase("queue.done-in", { time: about(work.seconds_left) })),
    element(
      "span.library-tools",
      {},
      !runs && button(phrase("queue.earlier"), "up", () => move(place, -1), place === 0),
      !runs && button(phrase("queue.later"), "down", () => move(place, 1), place === count - 1),
      button(phrase("page.cancel"), "close", (event) => attempt(() => api.cancel(work.id), event.currentTarget)),
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
  button.replaceChildren(icon(paused ? "play" : "pause"), paused ? phrase("queue.go-on") : phrase("queue.pause"));
  button.setAttribute("aria-pressed", String(paused));
  button.title = paused ? phrase("queue.go-on-hint") : phrase("queue.pause-hint");
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
  announce(news.paused ? phrase("queue.paused") : phrase("queue.goes-on"));
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
  line.textContent = paused ? phrase("queue.why-paused") : [phrase("queue.before", { stacks: plural(before, "stack") }), rest !== null && phrase("queue.done-in", { time: about(rest) })].filter(Boolean).join(", ");
}

on("job", () => sayWhyItWaits().catch(() => null));
