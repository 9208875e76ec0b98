// What leaves the studio: the result in three formats, the maps, and the settings as a command line.

import * as api from "./api.js";
import { openExport } from "./export.js";
import { asSentence, byId, element, icon, readableSeconds } from "./elements.js";
import { announce, say } from "./messages.js";
import { projectLinks } from "./project.js";
import { on, phase, state } from "./state.js";
import { phrase, told } from "./texts.js";

function formatLinks(job) {
  const { bit_depth } = job.result;
  const formats = [
    // 8-bit frames too: blending and alignment give values between their levels.
    ["tiff", bit_depth === 32 ? 32 : 16, "TIFF", phrase("save.tiff")],
    ["png", bit_depth > 8 ? 16 : 8, "PNG", phrase("save.png")],
    ["jpeg", 8, "JPEG", phrase("save.jpeg")],
  ];
  if (job.result.channels.length) formats.splice(0, 1, ["ome-tiff", 16, "OME-TIFF", phrase("channels.all-in")]);
  return formats.map(([format, bits, title, use], place) =>
    element(
      `a.button.wide${place ? "" : ".primary"}`,
      { href: api.downloadUrl(job.id, format, bits), download: "", id: `download-${format}` },
      icon("download"),
      element("span", {}, phrase("save.format", { format: title, bits })),
      element("small", {}, use),
    ),
  );
}

function exportButton() {
  return element("button.wide.toggle", { id: "open-export", onclick: openExport }, icon("download"), element("span", {}, phrase("export.open")), element("kbd", {}, phrase("shortcuts.key-export")));
}

function mapLinks(job) {
  const maps = [
    ["depth", "depth", phrase("compare.depth")],
    ["depth", "depth-colour", phrase("save.depth-colour")],
    ["decision", "decision", phrase("compare.decision")],
    ["confidence", "confidence", phrase("compare.confidence")],
  ].filter(([layer]) => job.result.layers.includes(layer));
  if (!maps.length) return null;
  return element(
    "div.field",
    {},
    element("h2", {}, phrase("save.maps")),
    element("ul.links", {}, maps.map(([, name, title]) => element("li", {}, element("a", { href: api.mapUrl(job.id, name), download: "" }, title)))),
  );
}

async function copyCommand(command) {
  try {
    await navigator.clipboard.writeText(command);
    announce(phrase("save.copied"));
    say(phrase("save.copied"), "good");
  } catch {
    // Not allowed without https or a gesture: the text is selected instead, so that Ctrl+C does it.
    getSelection().selectAllChildren(byId("command"));
    say(phrase("save.marked"));
  }
}

function commandField(job) {
  return element(
    "div.field",
    {},
    element("h2", {}, phrase("save.command")),
    ...(job.command ? commandParts(job) : [element("p.hint", {}, phrase("save.no-command"))]),
  );
}

function commandParts(job) {
  const strokes = job.strokes.length > 0 && ` ${phrase("save.command-strokes")}`;
  return [
    element("pre.command", { id: "command", tabindex: "0", "aria-label": phrase("save.command-label") }, job.command),
    element("button.small", { id: "copy-command", onclick: () => copyCommand(job.command) }, icon("copy"), phrase("save.copy")),
    element("p.hint", {}, phrase("save.command-hint"), strokes),
  ];
}

function facts(job) {
  const { result } = job;
  const seconds = Object.values(result.seconds ?? {}).reduce((sum, value) => sum + value, 0);
  const leftOut = Object.entries(result.left_out ?? {});
  return element(
    "div.field",
    {},
    element("h2", {}, phrase("save.about")),
    element(
      "dl.facts",
      {},
      ...[
        [phrase("save.size"), phrase("page.size", { width: result.width, height: result.height, bits: result.bit_depth })],
        result.white < 1 ? [phrase("save.shown"), phrase("save.shown-hint")] : null,
        [phrase("page.frames"), `${result.frames.length}${result.aligned ? `, ${phrase("save.aligned")}` : ""}`],
        [phrase("options.method"), result.method ?? job.options?.method ?? ""],
        seconds ? [phrase("save.time"), readableSeconds(seconds)] : null,
      ]
        .filter(Boolean)
        .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    ),
    result.has_report && element("p", {}, element("a", { href: api.reportUrl(job.id), target: "_blank", rel: "noopener" }, phrase("save.report"))),
    leftOut.length > 0 && element("ul.notices", {}, leftOut.map(([name, reason]) => element("li", {}, phrase("save.left-out", { name, reason: told(reason) })))),
    job.notices.length > 0 && element("ul.notices", {}, [...new Set(job.notices)].map((text) => element("li", {}, asSentence(told(text))))),
  );
}

function draw() {
  if (phase() !== "done") return;
  const { job } = state;
  byId("save").replaceChildren(
    ...[exportButton(), element("div.downloads", {}, formatLinks(job)), mapLinks(job), projectLinks(job), commandField(job), facts(job)].filter(Boolean),
  );
}

on("job", draw);
