// Presets: options under a name, those of allfocus and the user's own; and the options of the last time.

import * as api from "./api.js";
import { asSentence, byId, element } from "./elements.js";
import { announce, attempt } from "./messages.js";

let presets = [];
let remembered = null;

/** Asks the server what it remembers: the options of the last fusion, or null. */
export async function loadPreferences() {
  const found = await api.preferences();
  ({ presets, options: remembered } = found);
  return remembered;
}

/** Remembers options for the next stack. */
export async function remember(options) {
  ({ options: remembered, presets } = await api.rememberOptions(options));
}

/** The field with all presets; `apply` takes options, `chosen` gives those of the page. */
export function presetField(apply, chosen) {
  const select = element("select", { id: "preset", "aria-describedby": "preset-hint" });
  const hint = element("p.hint", { id: "preset-hint" });
  const remove = element("button.small", { type: "button", id: "preset-delete", hidden: true }, "Delete");
  const find = () => presets.find(({ name }) => name === select.value);
  const describe = () => {
    hint.textContent = find()?.about ? asSentence(find().about) : "";
    remove.hidden = !find()?.own;
  };
  const fill = (name = "") => {
    select.replaceChildren(
      element("option", { value: "" }, remembered ? "As last time" : "As it comes"),
      ...presets.map((preset) => element("option", { value: preset.name, selected: preset.name === name }, preset.title)),
    );
    describe();
  };
  select.addEventListener("change", () => {
    const options = find()?.options ?? remembered;
    apply(options, select.value);
    announce(select.value ? `Options of ${find().title}.` : "Options of the last time.");
  });
  const save = element("button.small", { type: "button", id: "preset-save" }, "Save as preset…");
  save.addEventListener("click", async () => {
    const name = window.prompt("Name of the preset", find()?.own ? find().name : "")?.trim();
    if (!name) return;
    const found = await attempt(() => api.keepPreset(name, chosen()), save);
    if (!found) return;
    presets = found.presets;
    fill(presets.find((preset) => preset.own && preset.name === name)?.name ?? "");
    announce(`The preset ${name} is saved.`);
  });
  remove.addEventListener("click", async () => {
    const found = await attempt(() => api.deletePreset(select.value), remove);
    if (!found) return;
    presets = found.presets;
    fill();
    byId("preset").focus();
  });
  fill();
  return {
    node: element("div.field.presets", {}, element("label", { for: "preset" }, "Preset"), select, hint, element("div.row", {}, save, remove)),
    choose: (name) => fill(name),
  };
}
