// What leaves the studio: the result in three formats, the maps, and the settings as a command line.

import * as api from "./api.js";
import { openExport } from "./export.js";
import { asSentence, byId, element, icon, readableSeconds } from "./elements.js";
import { announce, say } from "./messages.js";
import { projectLinks } from "./project.js";
import { on, phase, state } from "./state.js";

function formatLinks(job) {
  const { bit_depth } = job.result;
  const formats = [
    // 8-bit frames too: blending and alignment give values between their levels.
    ["tiff", bit_depth === 32 ? 32 : 16, "TIFF", "for further editing"],
    ["png", bit_depth > 8 ? 16 : 8, "PNG", "no loss, smaller"],
    ["jpeg", 8, "JPEG", "to send and to show"],
  ];
  return formats.map(([format, bits, title, use], place) =>
    element(
      `a.button.wide${place ? "" : ".primary"}`,
      { href: api.downloadUrl(job.id, format, bits), download: "", id: `download-${format}` },
      icon("download"),
      element("span", {}, `${title}, ${bits} bit`),
      element("small", {}, use),
    ),
  );
}

function exportButton() {
  return element("button.wide.toggle", { id: "open-export", onclick: openExport }, icon("download"), element("span", {}, "Export…"), element("kbd", {}, "Ctrl+S"));
}

function mapLinks(job) {
  const maps = [
    ["depth", "depth", "Depth"],
    ["depth", "depth-colour", "Depth in colour"],
    ["decision", "decision", "Decision"],
    ["confidence", "confidence", "Confidence"],
  ].filter(([layer]) => job.result.layers.includes(layer));
  if (!maps.length) return null;
  return element(
    "div.field",
    {},
    element("h3", {}, "Maps, as PNG"),
    element("ul.links", {}, maps.map(([, name, title]) => element("li", {}, element("a", { href: api.mapUrl(job.id, name), download: "" }, title)))),
  );
}

async function copyCommand(command) {
  try {
    await navigator.clipboard.writeText(command);
    announce("The command is copied.");
    say("The command is copied.", "good");
  } catch {
    // Not allowed without https or a gesture: the text is selected instead, so that Ctrl+C does it.
    getSelection().selectAllChildren(byId("command"));
    say("The command is marked; press Ctrl+C to copy it.");
  }
}

function commandField(job) {
  return element(
    "div.field",
    {},
    element("h3", {}, "The same on the command line"),
    ...(job.command ? commandParts(job) : [element("p.hint", {}, "There is no command for some pages of a file, or for pages in another order: it takes whole files.")]),
  );
}

function commandParts(job) {
  const strokes = job.strokes.length > 0 && " It makes the result without the brush strokes, which are kept with the stack here.";
  return [
    element("pre.command", { id: "command", tabindex: "0", "aria-label": "Command line" }, job.command),
    element("button.small", { id: "copy-command", onclick: () => copyCommand(job.command) }, icon("copy"), "Copy"),
    element("p.hint", {}, "Call it in the folder of the frames.", strokes),
  ];
}

function facts(job) {
  const { result } = job;
  const seconds = Object.values(result.seconds ?? {}).reduce((sum, value) => sum + value, 0);
  const leftOut = Object.entries(result.left_out ?? {});
  return element(
    "div.field",
    {},
    element("h3", {}, "About this result"),
    element(
      "dl.facts",
      {},
      ...[
        ["Size", `${result.width} × ${result.height}, ${result.bit_depth} bit`],
        result.white < 1 ? ["Shown", "brighter than it is; files keep its values"] : null,
        ["Frames", `${result.frames.length}${result.aligned ? ", aligned" : ""}`],
        ["Method", result.method ?? job.options?.method ?? ""],
        seconds ? ["Time", readableSeconds(seconds)] : null,
      ]
        .filter(Boolean)
        .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    ),
    result.has_report && element("p", {}, element("a", { href: api.reportUrl(job.id), target: "_blank", rel: "noopener" }, "Report of this stack")),
    leftOut.length > 0 && element("ul.notices", {}, leftOut.map(([name, reason]) => element("li", {}, `${name} was left out: ${reason}`))),
    job.notices.length > 0 && element("ul.notices", {}, [...new Set(job.notices)].map((text) => element("li", {}, asSentence(text)))),
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
