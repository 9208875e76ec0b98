// Results of several channels: which are looked at, in which colour, from where to where; and which stack of a file is taken.

import * as api from "./api.js";
import { byId, element } from "./elements.js";
import { attempt } from "./messages.js";
import { on, phase, setJob, state } from "./state.js";
import { phrase } from "./texts.js";
import { invalidate, view } from "./viewer.js";

const PAUSE = 150; // milliseconds without a change after which it is sent
const LEVELS = 65535;
const STEPS = 400; // of a slider

let wishes = []; // as the page has them, ahead of the server's while a slider moves
let timer = null;
let drawn = null; // "job/result" whose fields stand there

const channelsOf = () => (phase() === "done" ? (state.job?.result?.channels ?? []) : []);

function change(number, values) {
  wishes[number] = { ...wishes[number], ...values };
  follow(number);
  clearTimeout(timer);
  timer = setTimeout(send, PAUSE);
}

async function send() {
  const { id } = state.job;
  const answer = await attempt(() => api.showChannels(id, wishes));
  if (!answer || state.job?.id !== id) return;
  view.store?.lookAnew(answer.revision);
  setJob({ ...state.job, result: { ...state.job.result, ...answer } });
  invalidate();
}

const levelOf = (value) => Math.round(value * LEVELS);

/** What stands beside the sliders of a channel. */
function follow(number) {
  const { low, high, shown, colour } = wishes[number];
  byId(`channel-${number}-range`).textContent = phrase("channels.range", { low: levelOf(low), high: levelOf(high) });
  byId(`channel-${number}-low`).value = low;
  byId(`channel-${number}-high`).value = high;
  byId(`channel-${number}-fields`).hidden = !shown;
  byId(`channel-${number}-colour`).value = colour;
}

function slider(number, end, { name, white }) {
  const step = white / STEPS;
  const take = ({ target }) => {
    const value = Number(target.value);
    const { low, high } = wishes[number];
    change(number, end === "low" ? { low: Math.min(value, high - step) } : { high: Math.max(value, low + step) });
  };
  return element("input", { type: "range", id: `channel-${number}-${end}`, min: "0", max: String(white), step: "any", "aria-label": phrase(`channels.${end}`, { name }), oninput: take });
}

function field(channel, number) {
  return element(
    "div.channel",
    { "data-channel": channel.name },
    element(
      "div.row",
      {},
      element(
        "label.switch.grow",
        {},
        element("input", { type: "checkbox", role: "switch", id: `channel-${number}-shown`, checked: channel.shown, onchange: ({ target }) => change(number, { shown: target.checked }) }),
        element("span", {}, element("strong", {}, channel.name), element("small", { id: `channel-${number}-range` })),
      ),
      element("input", { type: "color", id: `channel-${number}-colour`, "aria-label": phrase("channels.colour", { name: channel.name }), oninput: ({ target }) => change(number, { colour: target.value }) }),
    ),
    element("div.channel-range", { id: `channel-${number}-fields` }, slider(number, "low", channel), slider(number, "high", channel)),
  );
}

function draw() {
  const channels = channelsOf();
  const home = byId("channels");
  home.hidden = !channels.length;
  byId("tab-finish").hidden = channels.length > 0;
  const key = channels.length ? `${state.job.id}/${state.job.result.first_revision}` : null;
  if (key === drawn) return;
  drawn = key;
  clearTimeout(timer);
  wishes = channels.map(({ shown, colour, low, high }) => ({ shown, colour, low, high }));
  home.replaceChildren(
    element("h2", { id: "channels-title" }, phrase("channels.heading")),
    ...channels.map(field),
    element("p.hint", {}, phrase("channels.hint")),
  );
  channels.forEach((_, number) => follow(number));
}

on("job", draw);

/** Asks which position and which time of a file to take: { position, time }, or null. */
export function askWhich(name, { positions, times }) {
  const select = (id, label, values) =>
    values.length > 1 && element("div.field", {}, element("label", { for: id }, label), element("select", { id }, values.map(([value, title]) => element("option", { value }, title))));
  const numbered = positions.map((title, place) => [String(place + 1), title]);
  const points = Array.from({ length: times }, (_, place) => [String(place + 1), String(place + 1)]);
  const dialog = byId("choose-stack");
  return new Promise((resolve) => {
    let answer = null;
    byId("choose-stack-form").replaceChildren(
      ...[
        element("p.hint", {}, phrase("channels.several", { name })),
        select("choose-position", phrase("channels.position"), numbered),
        select("choose-time", phrase("channels.time"), points),
        element("footer.row", {}, element("button.grow", { type: "button", onclick: () => dialog.close() }, phrase("page.cancel")), element("button.grow.primary", { type: "submit", id: "choose-stack-go" }, phrase("page.open"))),
      ].filter(Boolean),
    );
    byId("choose-stack-form").onsubmit = (event) => {
      event.preventDefault();
      answer = { position: byId("choose-position")?.value ?? null, time: byId("choose-time")?.value ?? null };
      dialog.close();
    };
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}
