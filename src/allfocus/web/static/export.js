// The dialog that writes the finished picture: format, depth, quality, colours, size, name.

import * as api from "./api.js";
import { asSentence, byId, element } from "./elements.js";
import { isChanged, keep } from "./finish.js";
import { announce, attempt } from "./messages.js";
import { phase, state } from "./state.js";
import { phrase } from "./texts.js";

const REMEMBERED = "allfocus-export";
const USES = { tiff: phrase("save.tiff"), png: phrase("save.png"), jpeg: phrase("save.jpeg"), webp: phrase("export.webp"), heif: phrase("export.heif"), "ome-tiff": phrase("channels.all-in"), "ome-zarr": phrase("channels.all-in") };
const FIELDS = ["stack", "result", "method", "date", "time", "width", "height"];
const NAMES = { tiff: ".tif", png: ".png", jpeg: ".jpg", webp: ".webp", heif: ".heic", "ome-tiff": ".ome.tif", "ome-zarr": ".ome.zarr.zip" };
const USUAL = { format: "tiff", bits: "", quality: 95, profile: "keep", size: "full", amount: "", name: "{stack}-{result}" };

let formats = null;

function remembered() {
  try {
    return { ...USUAL, ...JSON.parse(localStorage.getItem(REMEMBERED) ?? "{}") };
  } catch {
    return { ...USUAL };
  }
}

const chosen = () => Object.fromEntries(Object.keys(USUAL).map((name) => [name, byId(`export-${name}`)?.value ?? USUAL[name]]));

const option = ([value, title], selected) => element("option", { value, selected: value === selected }, title);
const field = (id, label, control) => element("div.field", { id: `${id}-field` }, element("label", { for: id }, label), control);
const select = (id, options, selected) => element("select", { id, onchange: follow }, options.map((each) => option(each, selected)));

/** A result of several channels is written whole, or as the picture that they make. */
const hasChannels = () => state.job.result.channels.length > 0;
const offered = () => {
  const fitting = formats.filter(({ channels }) => !channels || hasChannels());
  return hasChannels() ? fitting.sort((first, second) => Boolean(second.channels) - Boolean(first.channels)) : fitting;
};

function build(values) {
  const isFitting = offered().some(({ format }) => format === values.format) && !(hasChannels() && values.format === USUAL.format);
  const known = isFitting ? values.format : offered()[0].format;
  if (hasChannels()) values = { ...values, size: "full" };
  byId("export-form").replaceChildren(
    field("export-format", phrase("export.format"), select("export-format", offered().map(({ format, title }) => [format, `${title}, ${USES[format]}`]), known)),
    field("export-bits", phrase("export.bits"), element("select", { id: "export-bits", onchange: follow })),
    field("export-quality", element("span", {}, `${phrase("export.quality")} `, element("output", { id: "export-quality-value", for: "export-quality" })), element("input", { type: "range", id: "export-quality", min: "1", max: "100", value: String(values.quality), oninput: follow })),
    field("export-profile", phrase("export.colours"), select("export-profile", [["keep", phrase("export.keep-profile")], ["srgb", phrase("export.srgb")]], values.profile)),
    field(
      "export-size", phrase("save.size"),
      element(
        "div.row",
        {},
        select("export-size", [["full", phrase("export.full")], ["long_side", phrase("export.long-side")], ["percent", phrase("export.percent")]], values.size),
        element("input", { type: "number", id: "export-amount", min: "1", step: "1", value: values.amount, "aria-label": phrase("export.amount"), oninput: follow }),
      ),
    ),
    field("export-name", phrase("export.name"), element("input", { type: "text", id: "export-name", value: values.name, maxlength: "200", autocomplete: "off", spellcheck: "false", "aria-describedby": "export-fields" })),
    element("p.hint", { id: "export-fields" }, phrase("export.fields", { fields: FIELDS.map((name) => `{${name}}`).join(" ") })),
    element("p.hint", { id: "export-about", role: "status" }),
    element("p.trouble", { id: "export-trouble", role: "alert", hidden: true }),
    element("footer.row", {}, element("button.grow", { type: "button", onclick: () => byId("export").close() }, phrase("page.cancel")), element("button.grow.primary", { type: "submit", id: "export-go" }, phrase("export.heading"))),
  );
  follow();
  if (values.bits) byId("export-bits").value = values.bits;
  if (!byId("export-bits").value) byId("export-bits").selectedIndex = 0;
}

function follow() {
  const { format, size } = chosen();
  const kind = formats.find((each) => each.format === format);
  const depth = state.job.result.bit_depth;
  // Blending gives values between the levels of 8-bit frames, so that TIFF has 16 bits of them too.
  const usual = format === "tiff" ? Math.max(16, depth) : Math.max(...kind.bits.filter((bits) => bits <= Math.max(depth, 8)));
  const before = byId("export-bits").value;
  const deepest = Math.max(16, depth);
  const bits = kind.bits.filter((each) => each <= deepest);
  byId("export-bits").replaceChildren(...bits.map((each) => option([String(each), each === 32 ? phrase("export.floating") : String(each)], String(usual))));
  if (bits.map(String).includes(before) && byId("export-bits").dataset.format === format) byId("export-bits").value = before;
  byId("export-bits").dataset.format = format;
  byId("export-quality-field").hidden = !kind.lossy;
  byId("export-size-field").hidden = byId("export-profile-field").hidden = hasChannels();
  byId("export-bits-field").hidden = Boolean(kind.channels);
  byId("export-quality-value").textContent = byId("export-quality").value;
  byId("export-amount").hidden = size === "full";
  byId("export-amount").required = size !== "full";
  byId("export-amount").max = size === "percent" ? "400" : "100000";
  byId("export-about").textContent = about();
}

function about() {
  const [width, height] = state.job.result.finished_size;
  const { format, size, amount } = chosen();
  const value = Number(amount);
  const scale = size === "full" || !value ? 1 : size === "percent" ? value / 100 : value / Math.max(width, height);
  return phrase("export.about", { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)), ending: NAMES[format] });
}

async function write(event) {
  event.preventDefault();
  const values = chosen();
  localStorage.setItem(REMEMBERED, JSON.stringify(values));
  const trouble = byId("export-trouble");
  trouble.hidden = true;
  byId("export-go").disabled = true;
  byId("export-about").textContent = phrase("export.writing");
  try {
    const file = await api.exportFile(state.job.id, values);
    const link = element("a", { href: URL.createObjectURL(file.content), download: file.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // once the browser has taken it
    announce(phrase("export.written", { name: file.name }));
    byId("export").close();
  } catch (problem) {
    trouble.hidden = false;
    trouble.textContent = asSentence(problem.message);
  } finally {
    byId("export-go").disabled = false;
    byId("export-about").textContent = about();
  }
}

export async function openExport() {
  if (phase() !== "done" || byId("export").open) return;
  if (isChanged()) await keep();
  formats ??= await attempt(api.formats);
  if (!formats) return;
  build(remembered());
  byId("export").showModal();
}

byId("export-form").addEventListener("submit", write);
