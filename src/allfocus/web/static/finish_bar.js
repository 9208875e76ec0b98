// The scale bar: how large a pixel is, how long the bar, where and in which colour.

import { byId, element } from "./elements.js";
import { change, finish } from "./finish.js";
import { say } from "./messages.js";
import { state } from "./state.js";
import { decimal, phrase } from "./texts.js";

const CORNERS = [["bottom-right", phrase("finish.bottom-right")], ["bottom-left", phrase("finish.bottom-left")], ["top-right", phrase("finish.top-right")], ["top-left", phrase("finish.top-left")]];
const COLOURS = [["white", phrase("finish.white")], ["black", phrase("finish.black")]];

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
    say(phrase("finish.pixel-first"), "bad");
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
      element("span", {}, element("strong", {}, phrase("finish.bar-on")), element("small", { id: "bar-name" })),
    ),
    element("label.field", { for: "bar-pixel" }, phrase("finish.pixel"), element("input", { type: "text", id: "bar-pixel", inputmode: "decimal", autocomplete: "off", onchange: updateIfOn })),
    element("label.field", { for: "bar-length" }, phrase("finish.length"), element("input", { type: "text", id: "bar-length", inputmode: "decimal", autocomplete: "off", placeholder: phrase("finish.automatic"), onchange: updateIfOn })),
    element("div.row", {}, choice("bar-corner", phrase("finish.corner"), CORNERS), choice("bar-colour", phrase("finish.colour"), COLOURS)),
  ];
}

export function drawBar() {
  if (!byId("bar-on")) return;
  const bar = finish.current.scale_bar;
  byId("bar-on").checked = Boolean(bar);
  byId("bar-name").textContent = bar ? (finish.preview?.scale_bar ?? "") : state.job.result.pixel_size ? phrase("finish.pixel-known") : phrase("finish.bar-seen");
  const put = (id, value) => document.activeElement !== byId(id) && (byId(id).value = value);
  if (bar) {
    put("bar-pixel", String(bar.pixel_size));
    put("bar-length", bar.length ? String(bar.length) : "");
    put("bar-corner", bar.corner);
    put("bar-colour", bar.colour);
  } else if (!byId("bar-pixel").value && state.job.result.pixel_size) put("bar-pixel", String(Number(state.job.result.pixel_size.toPrecision(6))));
}
