// Other methods' results as sources of the retouch brush: added and cancelled below it.

import * as api from "./api.js";
import { asSentence, byId, element } from "./elements.js";
import { attempt } from "./messages.js";
import { inOrder, titleOf } from "./options.js";
import "./retouch_panel.js"; // which makes the place for them, and so hears of a job first
import { alternativeAtWork, on, phase, setJob, state } from "./state.js";
import { phrase, told } from "./texts.js";

function drawAlternatives() {
  const { job } = state;
  const layers = job.result.layers;
  const rest = inOrder(state.methods).filter(({ name, available }) => available && name !== job.options?.method && !layers.includes(`method-${name}`));
  const wanted = byId("alternative")?.value;
  const under = alternativeAtWork(job);
  const failed = job.alternatives?.findLast((other) => other.state === "failed");
  const select = element("select", { id: "alternative", disabled: Boolean(under) }, rest.map(({ name }) => element("option", { value: name, selected: name === wanted }, titleOf(name))));
  const add = under
    ? element("button", { id: "cancel-alternative", onclick: () => cancelAlternative(add) }, phrase("page.cancel"))
    : element("button", { id: "add-alternative", disabled: !rest.length, onclick: () => addAlternative(select.value, add) }, phrase("alternatives.add"));
  byId("alternatives").replaceChildren(
    element(
      "div.field",
      {},
      element("label", { for: "alternative" }, phrase("alternatives.heading")),
      element("div.row", {}, select, add),
      element("p.hint", { id: "alternative-hint", role: "status" }, failed?.error ? asSentence(told(failed.error, { code: failed.error_code })) : ""),
    ),
  );
  drawAlternativeHint();
}

/** How far another method is; the button beside it stays the same one, so that it can be pressed. */
function drawAlternativeHint() {
  const under = alternativeAtWork(state.job);
  const share = state.progress ? ` ${Math.round(state.progress.fraction * 100)} %` : "";
  if (under) byId("alternative-hint").textContent = `${phrase("alternatives.at-work", { name: titleOf(under.method) })}${share}`;
}

async function addAlternative(method, button) {
  const job = await attempt(() => api.addAlternative(state.job.id, method), button);
  if (job?.id) setJob(job);
}

async function cancelAlternative(button) {
  const job = await attempt(() => api.cancel(state.job.id), button);
  if (job) setJob(job);
}

on("job", () => phase() === "done" && byId("alternatives") && drawAlternatives());
on("progress", () => phase() === "done" && byId("alternatives") && drawAlternativeHint());
