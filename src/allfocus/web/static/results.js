// The results of a stack: every fusion is kept; one is open, the others are a click away, to compare or to paint from.

import * as api from "./api.js";
import { byId, element, icon, plural } from "./elements.js";
import { announce, attempt, say } from "./messages.js";
import { alternativeAtWork, emit, on, phase, setJob, setOther, setView, state } from "./state.js";
import { locale, phrase, told } from "./texts.js";

const COMPARING = ["slider", "side", "flicker", "difference"];
let naming = null; // the id of the result whose name is being typed
let showsDeleted = false;
let showsSlabs = false;
const slab = { size: 8, overlap: 2 }; // what most use

async function change(call, button, told) {
  const job = await attempt(call, button);
  if (!job || state.job?.id !== job.id) return false;
  setJob(job);
  if (told) announce(told);
  return true;
}

const open = (result, button) => change(() => api.openResult(state.job.id, result.id), button, phrase("results.opened", { name: result.name }));

function compare(result) {
  const layers = [`retouched-${result.id}`, result.id];
  setOther(layers.find((layer) => state.job.result.layers.includes(layer)));
  emit("show-picture");
  if (!COMPARING.includes(state.view)) setView("slider");
}

async function rename(result, name) {
  naming = null;
  if (name.trim() && name.trim() !== result.name) await change(() => api.changeResult(state.job.id, result.id, { name: name.trim() }), null, phrase("results.renamed"));
  draw();
  byId("results").querySelector(`[data-result="${CSS.escape(result.id)}"] .result-open`)?.focus();
}

async function remove(result, button) {
  if (!(await change(() => api.changeResult(state.job.id, result.id, { deleted: true }), button))) return;
  say(phrase("results.deleted", { name: result.name }), "note");
}

const restore = (result, button) => change(() => api.changeResult(state.job.id, result.id, { deleted: false }), button, phrase("results.restored", { name: result.name }));

function removeForGood(result, button) {
  if (!window.confirm(phrase("results.confirm", { name: result.name }))) return;
  change(() => api.removeResult(state.job.id, result.id), button, phrase("results.removed", { name: result.name }));
}

async function makeSlabs(event) {
  event.preventDefault();
  const { id } = state.job;
  await change(() => api.makeSlabs(id, slab.size, slab.overlap), byId("make-slabs"), phrase("results.slabs-started"));
}

function slabForm() {
  const number = (name, label, least) =>
    element(
      "label",
      { for: `slab-${name}` },
      label,
      element("input", { type: "number", id: `slab-${name}`, min: String(least), max: "1000", value: String(slab[name]), required: true, oninput: (event) => (slab[name] = Number(event.target.value)) }),
    );
  const working = Boolean(alternativeAtWork(state.job));
  return element(
    "details.slabs",
    { open: showsSlabs, ontoggle: (event) => (showsSlabs = event.target.open) },
    element("summary", {}, phrase("results.slabs")),
    element(
      "form",
      { onsubmit: makeSlabs },
      element("p.hint", {}, phrase("results.slabs-hint")),
      element("div.row", {}, number("size", phrase("page.frames"), 2), number("overlap", phrase("results.overlap"), 0)),
      element("button.small.wide", { id: "make-slabs", type: "submit", disabled: working }, working ? phrase("results.at-work") : phrase("results.make-slabs")),
    ),
  );
}

// What is shown ---------------------------------------------------------------------------------------------------

function about(result) {
  const when = result.created ? new Date(result.created * 1000).toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" }) : null;
  const size = !result.comparable && `${result.width} × ${result.height}`;
  return [plural(result.frames, "frame"), result.strokes > 0 && plural(result.strokes, "stroke"), size, when].filter(Boolean).join(", ");
}

function nameField(result) {
  const field = element("input.result-name", {
    type: "text",
    maxlength: "120",
    value: result.name,
    "aria-label": phrase("results.name", { name: result.name }),
    onkeydown: (event) => {
      if (event.key === "Enter") rename(result, field.value);
      else if (event.key === "Escape") rename(result, result.name);
      else return;
      event.preventDefault();
    },
    onblur: () => naming === result.id && rename(result, field.value),
  });
  return field;
}

function tool(label, sign, result, action, disabled = false) {
  const button = element("button.plain", { "aria-label": `${label}: ${result.name}`, title: label, disabled, onclick: () => action(result, button) }, icon(sign));
  return button;
}

function row(result) {
  const opener = element(
    "button.result-open",
    { "aria-current": result.open ? "true" : null, title: result.open ? phrase("results.is-open") : phrase("results.open"), onclick: () => result.open || open(result, opener) },
    element("strong", {}, result.name),
    element("small", {}, about(result)),
  );
  const cannot = result.open || !result.comparable;
  const compareTool = tool(phrase("results.compare"), "compare", result, compare, cannot);
  if (cannot && !result.open) compareTool.title = phrase("results.other-size");
  const startNaming = () => {
    naming = result.id;
    draw();
    byId("results").querySelector(".result-name")?.select();
  };
  return element(
    `li.result${result.open ? ".open" : ""}`,
    { "data-result": result.id },
    naming === result.id ? nameField(result) : opener,
    element(
      "span.result-tools",
      {},
      compareTool,
      tool(phrase("page.rename-short"), "edit", result, startNaming),
      tool(phrase("page.delete"), "trash", result, remove, state.job.results.filter(({ deleted }) => !deleted).length < 2),
    ),
  );
}

function deletedRow(result) {
  return element(
    "li.result.deleted",
    { "data-result": result.id },
    element("span.result-open", {}, element("strong", {}, result.name), element("small", {}, about(result))),
    element("span.result-tools", {}, tool(phrase("results.restore"), "undo", result, restore), tool(phrase("results.remove"), "trash", result, removeForGood)),
  );
}

function draw() {
  const box = byId("results");
  const results = phase() === "done" ? state.job.results : [];
  const deleted = results.filter((result) => result.deleted);
  box.hidden = !results.length;
  if (box.hidden) {
    box.replaceChildren();
    return;
  }
  if (naming && box.contains(document.activeElement) && document.activeElement.classList.contains("result-name")) return;
  const field = box.contains(document.activeElement) ? document.activeElement.id : "";
  const focused = box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") ?? document.activeElement.closest("[data-result]")?.dataset.result : null;
  const kept = results.filter((result) => !result.deleted);
  box.replaceChildren(
    element("h2", { id: "results-title" }, `${phrase("results.heading")} `, element("span.count", {}, String(kept.length))),
    element("ul.result-list", {}, [...kept].reverse().map(row)),
    ...(state.job.result.slab || state.job.result.channels.length || state.job.result.frames.length < 3 ? [] : [slabForm()]),
    ...(deleted.length
      ? [
          element(
            "details.deleted-results",
            { open: showsDeleted, ontoggle: (event) => (showsDeleted = event.target.open) },
            element("summary", {}, phrase("results.bin", { count: deleted.length })),
            element("ul.result-list", {}, [...deleted].reverse().map(deletedRow)),
          ),
        ]
      : []),
  );
  if (field) byId(field)?.focus({ preventScroll: true });
  else if (focused) (box.querySelector(`[aria-label="${CSS.escape(focused)}"]`) ?? box.querySelector(`[data-result="${CSS.escape(focused)}"] button`))?.focus({ preventScroll: true });
}

on("job view", draw);
