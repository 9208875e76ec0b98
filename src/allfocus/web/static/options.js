// How to fuse, in plain words: method, alignment, what to prefer; and the button that starts it.

import * as api from "./api.js";
import { asSentence, byId, element, icon, plural } from "./elements.js";
import { attempt, clearErrors } from "./messages.js";
import { isSending, listenFirst, on, phase, setJob, state } from "./state.js";

// Plain titles for the methods that most people choose; any other method shows its own name.
const TITLES = {
  ips: "Learned focus (recommended)",
  "laplacian-pyramid": "Pyramid, as published",
  "laplacian-pyramid-energy": "Pyramid: all fine detail",
  "depth-map": "Depth map: smooth surfaces",
  "guided-filter": "Guided filter: clean edges",
  "ips-hard": "Learned focus, copies only",
  wavelet: "Wavelets",
  average: "Plain average",
};
const PREFER = [
  { value: "", title: "Neither", hint: "The sharpest frame wins everywhere." },
  { value: "near", title: "Near", hint: "Where frames conflict, the first ones win: whole hairs and feelers. The first frame counts as nearest." },
  { value: "far", title: "Far", hint: "Where frames conflict, the last ones win: calm backgrounds. The last frame counts as farthest." },
];

const KNOW_PREFERENCE = ["ips", "ips-hard"];

const chosen = { method: "ips", align: true, prefer: "", skip_bad: false };
const ranks = Object.keys(TITLES);
const rank = ({ name }) => (ranks.includes(name) ? ranks.indexOf(name) : ranks.length);

/** Methods as they are listed: those that can run first, the best known of them before the others. */
export const inOrder = (methods) =>
  [...methods].sort((first, second) => second.available - first.available || rank(first) - rank(second));

export const titleOf = (name) => (TITLES[name] ? `${TITLES[name]} · ${name}` : name);

/** The options as the server takes them. */
export const chosenOptions = () => ({ ...chosen, prefer: (KNOW_PREFERENCE.includes(chosen.method) && chosen.prefer) || null });

function methodField() {
  const methods = inOrder(state.methods);
  const hint = element("p.hint", { id: "method-hint" });
  const describe = () => {
    const method = methods.find(({ name }) => name === chosen.method);
    hint.textContent = method ? [method.summary, method.limits].filter(Boolean).map(asSentence).join(" ") : "";
  };
  const select = element(
    "select",
    {
      id: "method",
      "aria-describedby": "method-hint",
      onchange: (event) => {
        chosen.method = event.target.value;
        describe();
        byId("prefer").hidden = !KNOW_PREFERENCE.includes(chosen.method);
      },
    },
    methods.map(({ name, available, missing }) =>
      element(
        "option",
        { value: name, disabled: !available, title: missing || null, selected: name === chosen.method },
        available ? titleOf(name) : `${titleOf(name)}: not installed`,
      ),
    ),
  );
  describe();
  return element("div.field", {}, element("label", { for: "method" }, "Method"), select, hint);
}

function switchField(name, title, hint) {
  return element(
    "label.switch",
    {},
    element("input", {
      type: "checkbox",
      role: "switch",
      id: `option-${name}`,
      checked: chosen[name],
      "aria-describedby": `${name}-hint`,
      onchange: (event) => (chosen[name] = event.target.checked),
    }),
    element("span", {}, element("strong", {}, title), element("small", { id: `${name}-hint` }, hint)),
  );
}

function preferField() {
  const hint = element("p.hint", { id: "prefer-hint" });
  const describe = () => (hint.textContent = PREFER.find(({ value }) => value === chosen.prefer).hint);
  describe();
  return element(
    "fieldset.field",
    { id: "prefer", "aria-describedby": "prefer-hint", hidden: !KNOW_PREFERENCE.includes(chosen.method) },
    element("legend", {}, "In doubt, prefer"),
    element(
      "div.segments",
      {},
      PREFER.map(({ value, title }) =>
        element(
          "label",
          {},
          element("input", {
            type: "radio",
            name: "prefer",
            value,
            checked: value === chosen.prefer,
            onchange: () => {
              chosen.prefer = value;
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

const startButton = element("button.primary.wide", { id: "start", onclick: start });
const startHint = element("p.hint", { id: "start-hint" });

async function start() {
  clearErrors();
  await attempt(() => listenFirst(startNow), startButton);
  drawStart();
}

async function startNow() {
  const before = state.job;
  const job = await api.start(before.id, chosenOptions());
  if (state.job === before) setJob(job); // otherwise the stream has told more already
}

function drawStart() {
  const frames = state.job?.frames.filter((frame) => frame.included) ?? [];
  const sending = isSending();
  const again = phase() === "done";
  startButton.disabled = sending || frames.length < 2;
  startButton.replaceChildren(icon(again ? "history" : "check"), again ? "Fuse again" : frames.length > 1 ? `Fuse ${plural(frames.length, "frame")}` : "Fuse");
  startHint.textContent = sending
    ? "The frames are still on their way."
    : frames.length < 2
      ? "Two frames at least must take part."
      : again
        ? state.job.strokes?.length
          ? "The new result replaces this one, and its brush strokes."
          : "The new result replaces this one."
        : "";
}

/** Draws the fields, with the options of the present job where it has some. */
export function drawOptions() {
  byId("options").replaceChildren(
    methodField(),
    switchField("align", "Align the frames", "Evens out small shifts, turns and the change of size from focusing."),
    preferField(),
    switchField("skip_bad", "Leave out bad frames", "A damaged or misplaced frame is left out and named, instead of stopping the work."),
    startButton,
    startHint,
  );
  drawStart();
}

on("job uploads", drawStart);
on("job", ({ before }) => {
  if (!state.job?.options || before?.id === state.job.id) return;
  Object.assign(chosen, state.job.options, { prefer: state.job.options.prefer ?? "" });
  drawOptions();
});
