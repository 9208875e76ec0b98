// Messages at the edge of the window, and the live region that reads changes to people who do not see them.

import { asSentence, byId, element, icon } from "./elements.js";
import { on, state } from "./state.js";
import { phrase } from "./texts.js";

const SECONDS = { note: 7, good: 4, bad: 9 };

/** Shows a sentence; kind is "note", "good", "bad" or "error". Errors stay until they are closed. */
export function say(text, kind = "note") {
  const box = byId("messages");
  unsay(text);
  const message = element(
    `div.message.${kind}`,
    { role: kind === "error" || kind === "bad" ? "alert" : "status", "data-text": text },
    element("p", {}, text),
    element("button.plain", { "aria-label": phrase("messages.close"), onclick: () => message.remove() }, icon("close")),
  );
  box.append(message);
  while (box.children.length > 4) box.firstChild.remove();
  if (SECONDS[kind]) setTimeout(() => message.remove(), SECONDS[kind] * 1000);
}

/** Takes a sentence away again. */
export function unsay(text) {
  for (const old of [...byId("messages").children]) if (old.dataset.text === text) old.remove();
}

/** Takes away what went wrong before; it does not hold for what is shown now. */
export function clearErrors() {
  for (const old of byId("messages").querySelectorAll(".error, .bad")) if (!state.serverIsGone) old.remove();
}

/** Reads a sentence to screen readers without showing it. */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** Runs what a button does; a failure becomes a message, and the button rests meanwhile. */
export async function attempt(action, button = null) {
  if (button) button.disabled = true;
  try {
    return await action();
  } catch (problem) {
    // That the server is gone is said once, by the module that waits for it.
    if (problem.name !== "AbortError" && !(state.serverIsGone && problem.status === 0)) say(asSentence(problem.message), "error");
    if (problem.name !== "ApiError" && problem.name !== "AbortError") console.error(problem);
    return undefined;
  } finally {
    if (button) button.disabled = false;
  }
}

on("message", ({ text, kind }) => say(text, kind));
