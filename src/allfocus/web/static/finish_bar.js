// The scale bar: how large a pixel is, how long the bar, where and in which colour.

import { byId, element } from "./elements.js";
import { change, finish } from "./finish.js";
import { say } from "./messages.js";
import { state } from "./state.js";

const CORNERS = [["bottom-right", "Bottom right"], ["bottom-left", "Bottom left"], ["top-right", "Top right"], ["top-left", "Top left"]];
const COLOURS = [["white", "White"], ["black", "Black"]];

/** "2,5" and "2.5" -> 2.5; null for anything that is no length. */
function lengthOf(text) {
  const value = Number(text.trim().replace(",", "."));
  return text.trim() && Number.isFinite(value) && value > 0 ? value : null;
}

function update() {
  if (!byId("bar-on").checked) {
    change({ scale_bar: null }, { rest: true });
    return;
  }
  const pixel_size = lengthOf(byId("bar-pixel").value);
  if (!pixel_size) {
    byId("bar-on").checked = false;
    say("Say how large a pixel is first, in micrometres.", "bad");
    byId("bar-pixel").focus();
    return;
  }
  change({ scale_bar: { pixel_size, length: lengthOf(byId("bar-length").value), corner: byId("bar-corner").value, colour: byId("bar-colour").value } }, { rest: true });
}

const updateIfOn = () => byId("bar-on").checked && update();
const choice = (id, label, options) =>
  element("label.field", { for: id }, label, element("select", { id, onchange: updateIfOn }, options.map(([value, title]) => element("option", { value }, title))));

export function buildBar() {
  return [
    element(
      "label.switch",
      {},
      element("input", { type: "checkbox", role: "switch", id: "bar-on", onchange: update }),
      element("span", {}, element("strong", {}, "Draw a scale bar"), element("small", { id: "bar-name" })),
    ),
    element("label.field", { for: "bar-pixel" }, "Micrometres per pixel", element("input", { type: "text", id: "bar-pixel", inputmode: "decimal", autocomplete: "off", onchange: updateIfOn })),
    element("label.field", { for: "bar-length" }, "Length in micrometres", element("input", { type: "text", id: "bar-length", inputmode: "decimal", autocomplete: "off", placeholder: "automatic", onchange: updateIfOn })),
    element("div.row", {}, choice("bar-corner", "Corner", CORNERS), choice("bar-colour", "Colour", COLOURS)),
  ];
}

export function drawBar() {
  if (!byId("bar-on")) return;
  const bar = finish.current.scale_bar;
  byId("bar-on").checked = Boolean(bar);
  byId("bar-name").textContent = bar ? (finish.preview?.scale_bar ?? "") : state.job.result.pixel_size ? "The size of a pixel is known from the frames." : "The view “Finished” shows it.";
  const put = (id, value) => document.activeElement !== byId(id) && (byId(id).value = value);
  if (bar) {
    put("bar-pixel", String(bar.pixel_size));
    put("bar-length", bar.length ? String(bar.length) : "");
    put("bar-corner", bar.corner);
    put("bar-colour", bar.colour);
  } else if (!byId("bar-pixel").value && state.job.result.pixel_size) put("bar-pixel", String(Number(state.job.result.pixel_size.toPrecision(6))));
}
