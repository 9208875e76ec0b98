// Stacks as they are listed: their covers, states and addresses; and the latest of them on the first screen.

import * as api from "./api.js";
import { byId, element, icon, plural, readableBytes } from "./elements.js";
import { attempt } from "./messages.js";
import { on, phase } from "./state.js";
import { locale, phrase } from "./texts.js";

const MOST_RECENT = 6;

export const addressOf = (job) => `#/stack/${job.id}`;

/** "2026-11-15T10:03:00Z" -> what the reader's own language writes. */
export function readableTime(text) {
  const time = new Date(typeof text === "number" ? text * 1000 : text);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString(locale, { dateStyle: "medium", timeStyle: "short" });
}

/** A small picture of a stack of the library: its result, or its first frame. */
export function cover({ id, result, first_frame }) {
  const address = result ? api.tileUrl(id, "result", result.levels - 1, 0, 0, result.revision) : first_frame && api.thumbnailUrl(id, first_frame);
  return element("span.cover", {}, address ? element("img", { src: address, alt: "", loading: "lazy", draggable: "false" }) : icon("frames"));
}

/** "8 frames, fused, 12 MB". */
export const describe = (stack) =>
  [plural(stack.frames, "frame"), phrase(`stacks.${stack.state}`), stack.bytes ? readableBytes(stack.bytes) : null].filter(Boolean).join(", ");

function row(stack) {
  return element(
    "li.stack",
    {},
    element(
      "a",
      { href: addressOf(stack) },
      cover(stack),
      element("span.about", {}, element("strong", {}, stack.name || phrase("page.stack")), element("small", {}, describe(stack)), element("small", {}, readableTime(stack.created))),
    ),
  );
}

async function drawRecent() {
  if (phase() !== "welcome") return;
  const { jobs = [] } = (await attempt(api.library)) ?? {};
  byId("recent").hidden = jobs.length === 0;
  byId("recent-list").replaceChildren(...jobs.slice(0, MOST_RECENT).map(row));
}

on("job", drawRecent);
