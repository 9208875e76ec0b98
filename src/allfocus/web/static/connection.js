// Whether the server is there: says so once when it is not, and takes up the work again when it is back.

import * as api from "./api.js";
import { asSentence } from "./elements.js";
import { say, unsay } from "./messages.js";
import { emit, isSending, on, refreshJob, setJob, state } from "./state.js";
import { phrase } from "./texts.js";

const MILLISECONDS_BETWEEN_TRIES = 1000;
const GONE = phrase("connection.gone");

async function whenLost() {
  if (state.serverIsGone) return;
  state.serverIsGone = true;
  say(GONE, "error");
  emit("server");
  do await new Promise((resolve) => setTimeout(resolve, MILLISECONDS_BETWEEN_TRIES));
  while (!(await api.isThere()));
  state.serverIsGone = false;
  unsay(GONE);
  say(phrase("connection.back"), "good");
  emit("server");
  await catchUp();
}

/** Takes what happened to the stack meanwhile, in another window or without this page; a deleted one is left. */
async function catchUp() {
  const { job } = state;
  if (!job || state.serverIsGone || isSending()) return;
  try {
    await refreshJob();
  } catch (problem) {
    if (problem.status !== 404 || state.job?.id !== job.id) return; // said by whoever asks next
    say(asSentence(problem.message), "error");
    setJob(null);
    location.hash = "#/";
  }
}

api.whenLost(whenLost);
on("stream-ended", catchUp);
// Two windows may show one stack; each learns what the other did when it is looked at again.
document.addEventListener("visibilitychange", () => document.hidden || catchUp());
addEventListener("focus", catchUp);
