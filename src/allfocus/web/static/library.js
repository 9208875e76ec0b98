// The library: every stack the server keeps, to search, sort, rename, fuse, save and delete; above it the queue.

import * as api from "./api.js";
import { asSentence, byId, element, icon, plural, readableBytes } from "./elements.js";
import { announce, attempt, say } from "./messages.js";
import { chosenOptions } from "./options.js";
import { drawQueue, showProgress } from "./queue.js";
import { addressOf, cover, describe, readableTime } from "./stacks.js";
import { setJob, state } from "./state.js";
import { locale, phrase, told } from "./texts.js";

const DAYS_UNTIL_OLD = 30;
const SHOWN = [
  ["all", phrase("library.all"), () => true],
  ["waiting", phrase("library.to-be-fused"), ({ state: kind, result }) => !result && !["queued", "running"].includes(kind)],
  ["done", phrase("library.fused"), ({ result }) => Boolean(result)],
  ["failed", phrase("library.failed"), ({ state: kind }) => ["failed", "cancelled"].includes(kind)],
  ["old", phrase("library.old", { days: DAYS_UNTIL_OLD }), (stack) => isOld(stack)],
];
const naturally = new Intl.Collator(locale, { numeric: true, sensitivity: "base" });
const ORDERS = [
  ["newest", phrase("library.newest"), (one, two) => two.created - one.created],
  ["changed", phrase("library.changed"), (one, two) => two.changed - one.changed],
  ["name", phrase("library.by-name"), (one, two) => naturally.compare(one.name, two.name)],
  ["size", phrase("library.largest"), (one, two) => two.bytes - one.bytes],
];

let known = { jobs: [], queue: { paused: false, running: [], waiting: [], seconds_left: 0 }, used_bytes: 0, disk_bytes: 0 };
let chosen = new Set(); // ids
let renaming = null; // the id of the stack whose name is being edited
let stopListening = null;

const isOld = ({ changed }) => Date.now() / 1000 - changed > DAYS_UNTIL_OLD * 86400;
const isOpen = () => document.body.dataset.page === "library";

/** The stacks that search and filter leave, in order. */
function shown() {
  const words = byId("library-search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const filter = SHOWN.find(([name]) => name === byId("library-filter").value)[2];
  const order = ORDERS.find(([name]) => name === byId("library-order").value)[2];
  const matches = ({ name }) => words.every((word) => name.toLowerCase().includes(word));
  return known.jobs.filter((stack) => filter(stack) && matches(stack)).sort(order);
}

/** The stacks that are ticked, in the order of the list, also where search or filter hides them now. */
function picked() {
  const order = ORDERS.find(([name]) => name === byId("library-order").value)[2];
  return known.jobs.filter(({ id }) => chosen.has(id)).sort(order);
}

const canBeFused = ({ state: kind, frames, missing }) => !["queued", "running"].includes(kind) && frames > 1 && !missing;

function nameField(stack) {
  const end = async (keep) => {
    if (renaming !== stack.id) return;
    renaming = null;
    const name = field.value.trim();
    if (keep && name && name !== stack.name) await rename(stack.id, name);
    draw();
    document.querySelector(`[data-stack="${stack.id}"] [data-rename]`)?.focus();
  };
  const field = element("input.rename", {
    type: "text",
    value: stack.name,
    maxlength: "120",
    "aria-label": phrase("library.new-name", { name: stack.name }),
    onkeydown: (event) => {
      if (event.key === "Enter") end(true);
      else if (event.key === "Escape") end(false);
      else return;
      event.preventDefault();
    },
    onblur: () => end(true),
  });
  return field;
}

/** Gives a stack another name, here and on the server. */
export async function rename(id, name) {
  const job = await attempt(() => api.rename(id, name));
  if (!job) return;
  known.jobs = known.jobs.map((stack) => (stack.id === id ? { ...stack, name: job.name } : stack));
  if (state.job?.id === id) setJob({ ...state.job, name: job.name });
  announce(phrase("library.renamed", { name: job.name }));
}

function row(stack) {
  const { id, name } = stack;
  const pick = element("input", {
    type: "checkbox",
    checked: chosen.has(id),
    "aria-label": phrase("library.select", { name }),
    onchange: (event) => {
      if (event.target.checked) chosen.add(id);
      else chosen.delete(id);
      drawTools();
    },
  });
  const small = (title, label, sign, action, more = {}) => element("button.plain", { "aria-label": label, title, onclick: action, ...more }, icon(sign));
  const trouble = stack.missing ? phrase("library.missing", { frames: plural(stack.missing, "frame") }) : stack.state === "failed" ? asSentence(told(stack.error ?? "", { code: stack.error_code })) : "";
  return element(
    "li.library-row",
    { "data-stack": id },
    pick,
    element("a.library-cover", { href: addressOf(stack), tabindex: "-1", "aria-hidden": "true" }, cover(stack)),
    element(
      "div.about",
      {},
      renaming === id ? nameField(stack) : element("a.library-name", { href: addressOf(stack) }, name || phrase("page.stack")),
      element("small", { "data-about": "" }, describe(stack)),
      trouble && element("small.bad", {}, trouble),
    ),
    element("small.library-time", { title: phrase("library.made", { time: readableTime(stack.created) }) }, readableTime(stack.changed)),
    element(
      "span.library-tools",
      {},
      small(phrase("page.rename-short"), phrase("library.rename-name", { name }), "pencil", () => beginRenaming(id), { "data-rename": "" }),
      !["queued", "running"].includes(stack.state) && !stack.missing && element("a.button.plain", { href: api.projectUrl(id, "embedded"), download: "", "aria-label": phrase("library.save-name", { name }), title: phrase("library.save") }, icon("download")),
      small(phrase("page.delete"), phrase("library.delete-name", { name }), "trash", () => remove([stack])),
    ),
  );
}

function beginRenaming(id) {
  renaming = id;
  draw();
  const field = document.querySelector(`[data-stack="${id}"] .rename`);
  field?.focus();
  field?.select();
}

async function remove(stacks) {
  const what = stacks.length === 1 ? stacks[0].name || phrase("library.this-stack") : plural(stacks.length, "stack");
  const size = readableBytes(stacks.reduce((sum, { bytes }) => sum + bytes, 0));
  if (!window.confirm(phrase("library.confirm", { what, size }))) return;
  for (const { id } of stacks) {
    if ((await attempt(() => api.deleteJob(id))) === undefined) break;
    chosen.delete(id);
    if (state.job?.id === id) setJob(null);
  }
  await refresh();
  announce(phrase("library.deleted", { what }));
}

/** Puts stacks into the queue, each with the options it was last fused with, or else those of the page. */
export async function fuse(stacks) {
  let started = 0;
  for (const { id } of stacks) {
    const job = await attempt(async () => {
      const { options } = await api.readJob(id);
      return api.start(id, options ?? chosenOptions());
    });
    if (job) started += 1;
  }
  if (started) say(phrase("library.queued", { stacks: plural(started, "stack") }), "good");
  await refresh();
}

function drawTools() {
  const list = shown();
  const ticked = picked();
  const all = byId("library-all");
  all.checked = list.length > 0 && list.every(({ id }) => chosen.has(id));
  all.indeterminate = !all.checked && ticked.length > 0;
  const size = readableBytes(ticked.reduce((sum, { bytes }) => sum + bytes, 0));
  byId("library-picked").textContent = ticked.length ? phrase("library.selected", { count: ticked.length, size }) : plural(list.length, "stack");
  byId("library-fuse").disabled = !ticked.some(canBeFused);
  byId("library-delete").disabled = ticked.length === 0;
  byId("library-room").textContent = phrase("library.room", { used: readableBytes(known.used_bytes), all: readableBytes(known.disk_bytes) });
  const old = known.jobs.filter(isOld);
  const hint = byId("library-old");
  hint.hidden = old.length === 0 || byId("library-filter").value === "old";
  if (!hint.hidden) {
    const bytes = readableBytes(old.reduce((sum, stack) => sum + stack.bytes, 0));
    hint.replaceChildren(
      element("span", {}, phrase("library.old-hint", { stacks: plural(old.length, "stack"), size: bytes, days: DAYS_UNTIL_OLD })),
      element("button.small", { onclick: () => show("old") }, phrase("library.show-old")),
    );
  }
}

function show(filter) {
  byId("library-filter").value = filter;
  draw();
}

function draw() {
  if (!isOpen() || (renaming && document.activeElement?.matches(".rename"))) return;
  const ids = new Set(known.jobs.map(({ id }) => id));
  chosen = new Set([...chosen].filter((id) => ids.has(id)));
  const list = shown();
  const focused = document.activeElement?.closest?.("[data-stack]")?.dataset.stack;
  const label = document.activeElement?.getAttribute?.("aria-label");
  byId("library-list").replaceChildren(...list.map(row));
  if (focused && label) {
    const inside = document.querySelector(`[data-stack="${CSS.escape(focused)}"]`);
    [...(inside?.querySelectorAll("[aria-label]") ?? [])].find((node) => node.getAttribute("aria-label") === label)?.focus({ preventScroll: true });
  }
  byId("library-none").textContent = list.length ? "" : known.jobs.length ? phrase("library.none-fits") : phrase("library.none");
  drawTools();
  drawQueue(known.queue);
}

function take(news) {
  known = news;
  draw();
}

async function refresh() {
  const news = await attempt(api.library);
  if (news) take(news);
}

/** Shows the library and follows what happens in it until the page goes elsewhere. */
export async function openLibrary() {
  await refresh();
  stopListening ??= api.listenToLibrary({
    state: take,
    progress: (news) => showProgress(news),
    ended: () => leaveLibrary(),
  });
}

export function leaveLibrary() {
  stopListening?.();
  stopListening = null;
}

function choices(select, list) {
  select.replaceChildren(...list.map(([value, title]) => element("option", { value }, title)));
}

choices(byId("library-filter"), SHOWN);
choices(byId("library-order"), ORDERS);
for (const id of ["library-search", "library-filter", "library-order"]) byId(id).addEventListener("input", draw);
byId("library-all").addEventListener("change", (event) => {
  for (const { id } of shown()) event.target.checked ? chosen.add(id) : chosen.delete(id);
  draw();
});
byId("library-fuse").addEventListener("click", () => fuse(picked().filter(canBeFused)));
byId("library-delete").addEventListener("click", () => remove(picked()));
