// Presets: options under a name, those of allfocus and the user's own; and the options of the last time.

import * as api from "./api.js";
import { asSentence, byId, element } from "./elements.js";
import { announce, attempt } from "./messages.js";
import { phrase, serverPhrase } from "./texts.js";

/** Title and purpose of a preset; those of allfocus in the language of the page. */
const titleOf = ({ name, title, own }) => (own ? title : serverPhrase(`preset.${name}.title`, title));
const purposeOf = ({ name, about, own }) => (own ? about : serverPhrase(`preset.${name}.about`, about));

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
  const remove = element("button.small", { type: "button", id: "preset-delete", hidden: true }, phrase("page.delete"));
  const find = () => presets.find(({ name }) => name === select.value);
  const describe = () => {
    hint.textContent = find()?.about ? asSentence(purposeOf(find())) : "";
    remove.hidden = !find()?.own;
  };
  const fill = (name = "") => {
    select.replaceChildren(
      element("option", { value: "" }, remembered ? phrase("presets.last") : phrase("presets.none")),
      ...presets.map((preset) => element("option", { value: preset.name, selected: preset.name === name }, titleOf(preset))),
    );
    describe();
  };
  select.addEventListener("change", () => {
    const options = find()?.options ?? remembered;
    apply(options, select.value);
    announce(select.value ? phrase("presets.taken", { name: titleOf(find()) }) : phrase("presets.taken-last"));
  });
  const save = element("button.small", { type: "button", id: "preset-save" }, phrase("presets.save"));
  save.addEventListener("click", async () => {
    const name = window.prompt(phrase("presets.name"), find()?.own ? find().name : "")?.trim();
    if (!name) return;
    const found = await attempt(() => api.keepPreset(name, chosen()), save);
    if (!found) return;
    presets = found.presets;
    fill(presets.find((preset) => preset.own && preset.name === name)?.name ?? "");
    announce(phrase("presets.saved", { name }));
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
    node: element("div.field.presets", {}, element("label", { for: "preset" }, phrase("presets.heading")), select, hint, element("div.row", {}, save, remove)),
    choose: (name) => fill(name),
  };
}
