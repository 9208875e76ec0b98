// How to fuse, in plain words: method, alignment, what to prefer; and the button that starts it.

import * as api from "./api.js";
import { asSentence, byId, element, icon, plural } from "./elements.js";
import { attempt, clearErrors } from "./messages.js";
import { loadPreferences, presetField, remember } from "./presets.js";
import { inTurn, isSending, listenFirst, on, phase, setJob, state } from "./state.js";
import { phrase, serverPhrase, told } from "./texts.js";

// What there is to choose, with titles, hints and defaults, is the server's description of the body that starts a job.

let described = {}; // name -> schema of the option
const chosen = {};

/** The texts of an option in the language of the page; the server sends them in English. */
const titleOfOption = (name) => serverPhrase(`option.${name}.title`, described[name].title);
const helpOfOption = (name) => serverPhrase(`option.${name}.help`, described[name].description);

const methodOf = (name) => state.methods.find((method) => method.name === name);
const methodTakes = (name) => {
  const ability = described[name]["x-ability"];
  return !ability || Boolean(methodOf(chosen.method)?.abilities[ability]);
};
const kindsOf = (schema) => (schema.anyOf ?? [schema]).map(({ type }) => type);
const choicesOf = (schema) => (schema.anyOf ?? [schema]).flatMap((kind) => kind.enum ?? []);

/** Methods as they are listed: those that can run first, of them those with a plain title before the others. */
export const inOrder = (methods) =>
  [...methods].sort((first, second) => second.available - first.available || Boolean(second.title) - Boolean(first.title));

export const titleOf = (name) => (methodOf(name)?.title ? `${serverPhrase(`method.${name}.title`, methodOf(name).title)} · ${name}` : name);

/** The options as the server takes them; what the method does not know stays as it is by default. */
export const chosenOptions = () =>
  Object.fromEntries(Object.entries(described).map(([name, schema]) => [name, methodTakes(name) && fitsChannels(name) ? chosen[name] : schema.default]));

/** The channels of the stack at hand; none for pictures. */
const channelNames = () => state.job?.frames[0]?.channel_names ?? [];
const isOfChannels = (name) => described[name]["x-channels"];
const fitsChannels = (name) => !isOfChannels(name) || (channelNames().length > 0 && ["all", "each", ...channelNames()].includes(chosen[name]));

/** Asks the server what there is to choose. */
export async function loadOptions() {
  const [{ components }, last] = await Promise.all([api.description(), loadPreferences()]);
  described = components.schemas.StartOptions.properties;
  for (const [name, schema] of Object.entries(described)) chosen[name] ??= last?.[name] ?? schema.default;
}

/** Takes the options of a preset, or those of the last time; null for the defaults. */
function applyOptions(options, preset) {
  for (const [name, schema] of Object.entries(described)) chosen[name] = options ? options[name] : schema.default;
  drawOptions(preset);
  byId("preset").focus();
}

function methodField() {
  const methods = inOrder(state.methods);
  const hint = element("p.hint", { id: "method-hint" });
  const describe = () => {
    const method = methodOf(chosen.method);
    hint.textContent = method ? ["summary", "limits"].filter((part) => method[part]).map((part) => serverPhrase(`method.${method.name}.${part}`, method[part])).map(asSentence).join(" ") : "";
  };
  const select = element(
    "select",
    {
      id: "method",
      "aria-describedby": "method-hint",
      onchange: (event) => {
        chosen.method = event.target.value;
        describe();
        for (const field of document.querySelectorAll("#options [data-option]")) field.hidden = !methodTakes(field.dataset.option) || (isOfChannels(field.dataset.option) && !channelNames().length);
      },
    },
    methods.map(({ name, available, missing }) =>
      element(
        "option",
        { value: name, disabled: !available, title: missing || null, selected: name === chosen.method },
        available ? titleOf(name) : `${titleOf(name)}: ${missing}`,
      ),
    ),
  );
  describe();
  return element("div.field", {}, element("label", { for: "method" }, described.method ? titleOfOption("method") : phrase("options.method")), select, hint);
}

function switchField(name) {
  return element(
    "label.switch",
    { "data-option": name, hidden: !methodTakes(name) },
    element("input", {
      type: "checkbox",
      role: "switch",
      id: `option-${name}`,
      checked: chosen[name],
      "aria-describedby": `${name}-hint`,
      onchange: (event) => (chosen[name] = event.target.checked),
    }),
    element("span", {}, element("strong", {}, titleOfOption(name)), element("small", { id: `${name}-hint` }, helpOfOption(name))),
  );
}

/** One of several values, the first of which leaves the choice to the program. */
function choiceField(name, schema) {
  const boolean = kindsOf(schema).includes("boolean");
  const meanings = schema["x-choices"];
  const values = boolean
    ? [{ value: null, title: phrase("options.automatic") }, { value: true, title: phrase("options.on") }, { value: false, title: phrase("options.off") }]
    : [...((schema.default ?? null) === null ? [{ value: null, title: phrase("options.neither") }] : []), ...choicesOf(schema).map((value) => ({ value, title: serverPhrase(`option.${name}.${value}`, asTitle(String(value))), hint: serverPhrase(`option.${name}.${value}.help`, meanings[value]) }))];
  const hint = element("p.hint", { id: `${name}-hint` });
  const describe = () => {
    const { title, hint: own } = values.find(({ value }) => value === (chosen[name] ?? null));
    hint.textContent = own ? asSentence(`${title}: ${own}`) : helpOfOption(name);
  };
  describe();
  return element(
    "fieldset.field",
    { id: name, "data-option": name, "aria-describedby": `${name}-hint`, hidden: !methodTakes(name) },
    element("legend", {}, titleOfOption(name)),
    element(
      "div.segments",
      {},
      values.map(({ value, title }) =>
        element(
          "label",
          {},
          element("input", {
            type: "radio",
            name,
            value: value ?? "",
            checked: value === (chosen[name] ?? null),
            onchange: () => {
              chosen[name] = value;
              describe();
            },
          }),
          element("span", {}, title),
        ),
      ),
    ),
    hint,
  );
}

/** A whole number; what is none becomes the default. */
function numberField(name, schema) {
  const take = ({ target }) => {
    chosen[name] = Number.isSafeInteger(target.valueAsNumber) ? target.valueAsNumber : schema.default;
    target.value = chosen[name];
  };
  return element(
    "div.field",
    { "data-option": name, hidden: !methodTakes(name) },
    element("label", { for: `option-${name}` }, titleOfOption(name)),
    element("input", { type: "number", step: 1, id: `option-${name}`, value: chosen[name], "aria-describedby": `${name}-hint`, onchange: take }),
    element("p.hint", { id: `${name}-hint` }, helpOfOption(name)),
  );
}

const asTitle = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** By which channels is decided; only for stacks that have some. */
function decideField(name) {
  const names = channelNames();
  const titles = { all: phrase("channels.all"), each: phrase("channels.each") };
  const values = ["all", ...names.filter((own) => !(own in titles)), "each"];
  const value = fitsChannels(name) ? chosen[name] : "all";
  return element(
    "div.field",
    { "data-option": name, hidden: !names.length },
    element("label", { for: `option-${name}` }, titleOfOption(name)),
    element(
      "select",
      { id: `option-${name}`, "aria-describedby": `${name}-hint`, onchange: (event) => (chosen[name] = event.target.value) },
      values.map((own) => element("option", { value: own, selected: own === value }, titles[own] ?? own)),
    ),
    element("p.hint", { id: `${name}-hint` }, helpOfOption(name)),
  );
}

function optionField([name, schema]) {
  if (isOfChannels(name)) return decideField(name);
  const kinds = kindsOf(schema);
  if (kinds.length === 1 && kinds[0] === "integer") return numberField(name, schema);
  return kinds.length === 1 && kinds[0] === "boolean" ? switchField(name) : choiceField(name, schema);
}

const startButton = element("button.primary.wide", { id: "start", onclick: start });
const startHint = element("p.hint", { id: "start-hint" });

async function start() {
  clearErrors();
  await attempt(() => listenFirst(startNow), startButton);
  drawStart();
}

/** Starts the fusion after the orders of frames that are on their way, or they would be fused in another one. */
async function startNow() {
  const { id } = state.job;
  let before = null;
  const job = await inTurn(() => {
    before = state.job;
    return api.start(id, chosenOptions());
  });
  remember(chosenOptions()).catch(() => null); // the fusion runs; that it is not remembered is no reason to stop
  if (state.job === before && before?.id === id) setJob(job); // otherwise the stream has told more already
}

function drawStart() {
  const frames = state.job?.frames.filter((frame) => frame.included) ?? [];
  const sending = isSending();
  const again = phase() === "done";
  startButton.disabled = sending || frames.length < 2;
  startButton.replaceChildren(icon(again ? "history" : "check"), again ? phrase("options.again") : frames.length > 1 ? phrase("options.fuse", { frames: plural(frames.length, "frame") }) : phrase("page.fuse"));
  startHint.textContent = sending
    ? phrase("options.sending")
    : frames.length < 2
      ? phrase("options.too-few")
      : again
        ? phrase("options.kept")
        : "";
}

/** Draws the fields, with the options of the present job where it has some. */
export function drawOptions(preset = "") {
  const presets = presetField(applyOptions, chosenOptions);
  presets.choose(preset);
  const others = Object.entries(described).filter(([name]) => name !== "method");
  const rare = others.filter(([, schema]) => schema["x-rare"]);
  byId("options").replaceChildren(
    presets.node,
    methodField(),
    ...others.filter(([, schema]) => !schema["x-rare"]).map(optionField),
    ...(rare.length ? [element("details.more", {}, element("summary", {}, phrase("options.more")), rare.map(optionField))] : []),
    startButton,
    startHint,
  );
  drawStart();
}

on("job uploads", drawStart);
let drawnChannels = "";
on("job", () => {
  const names = channelNames().join();
  if (names === drawnChannels || !byId("options").firstChild) return;
  drawnChannels = names;
  drawOptions();
});
on("job", ({ before }) => {
  if (!state.job?.options || before?.id === state.job.id) return;
  Object.assign(chosen, state.job.options);
  drawOptions();
});
