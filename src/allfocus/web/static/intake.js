// A dropped folder or tree: sent as it is, cut into stacks by the rules of `allfocus batch`, and shown before it starts.

import * as api from "./api.js";
import { askWhich } from "./channels.js";
import { asSentence, byId, element, icon, plural, readableBytes } from "./elements.js";
import { announce, attempt, say } from "./messages.js";
import { chosenOptions } from "./options.js";
import { setJob, state } from "./state.js";
import { phrase, told } from "./texts.js";
import { placeOf } from "./uploads.js";

const AT_ONCE = 2;
const WAYS = [
  ["folder", phrase("intake.folder"), phrase("intake.folder-hint")],
  ["time", phrase("intake.time"), phrase("intake.time-hint")],
  ["number", phrase("intake.number"), phrase("intake.number-hint")],
  ["shoot", phrase("intake.shoot"), phrase("intake.shoot-hint")],
  ["file", phrase("intake.file"), phrase("intake.file-hint")],
];
const TIMED = ["time", "shoot"]; // ways in which a pause between two shots counts

let intake = null; // { id, name } of the tree at hand
let stacks = []; // { name, title, frames, bytes, problem, wanted }
let leftOut = []; // { path, reason } of pictures that are in no stack
let way = "folder";
let failed = []; // { path, problem } of files that could not be sent
let isBusy = false;
let preview = new AbortController(); // of the cut that is under way, to be shown

const dialog = byId("intake");

/** Sends the files of a tree and shows how they would be cut; a tree of one stack is opened without a question. */
export async function takeTree({ files, folder }) {
  await attempt(async () => {
    begin(folder);
    intake = await api.createIntake({ name: folder ?? "" });
    await sendAll(files);
    await cutFirst();
  });
  if (dialog.open && !stacks.length && !isBusy) await discard();
}

/** Sends an OME-Zarr, a folder of many small files that hold one picture, and opens what is in it as a stack. */
export async function takeImage({ files, folder }) {
  const most = state.limits?.folder_files ?? Infinity;
  if (files.length > most) {
    say(phrase("intake.image-too-large", { name: folder, count: files.length, most }), "error");
    return;
  }
  await attempt(async () => {
    begin(folder);
    intake = await api.createIntake({ name: folder });
    const { id } = intake;
    await sendAll(files, plural(files.length, "file"));
    if (intake?.id !== id) return; // closed meanwhile
    if (failed.length) {
      say(phrase("intake.image-failed", { name: folder, ...failed[0] }), "error");
      return;
    }
    tellSending(phrase("intake.image-opening"));
    const name = folder.replace(/(\.ome)?\.zarr$/i, "");
    let answer = await api.takeStack(id, name, [folder]);
    if (answer.choose) {
      const which = await askWhich(folder, answer.choose);
      answer = which && (await api.takeStack(id, name, [folder], which));
    }
    await end();
    if (answer) show(answer.job);
  });
  if (dialog.open && !isBusy) await discard();
}

function show(job) {
  setJob(job);
  location.hash = `#/stack/${job.id}`;
}

/** The same for a folder of the server's machine, which is read where it lies. */
export async function takeFolder(path) {
  await attempt(async () => {
    begin(path.replace(/[\\/]+$/, "").replace(/^.*[\\/]/, ""));
    intake = await api.createIntake({ path });
    await cutFirst();
  });
  if (dialog.open && !stacks.length && !isBusy) await discard();
}

/** Shows a tree that the server has already, such as one that `allfocus open` named. */
export async function openIntake(id) {
  await attempt(async () => {
    begin("");
    intake = await api.readIntake(id);
    byId("intake-title").textContent = phrase("intake.heading-in", { name: intake.name });
    await cutFirst();
  });
  if (dialog.open && !stacks.length && !isBusy) await discard();
}

function begin(name) {
  [intake, stacks, failed, leftOut] = [null, [], [], []];
  byId("intake-title").textContent = name ? phrase("intake.heading-in", { name }) : phrase("intake.heading");
  byId("intake-choice").hidden = true;
  byId("intake-list").replaceChildren();
  tellSending(phrase("intake.looking"));
  if (!dialog.open) dialog.showModal();
}

function tellSending(text, share = null) {
  byId("intake-sending").hidden = text === "";
  byId("intake-note").textContent = text;
  const bar = byId("intake-bar");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
}

async function sendAll(files, pictures = plural(files.length, "picture")) {
  const { id } = intake;
  const whole = files.reduce((sum, { size }) => sum + size, 0) || 1;
  const waiting = [...files];
  let [sent, count] = [0, 0];
  isBusy = true;
  const sender = async () => {
    for (let file = waiting.shift(); file && intake?.id === id; file = waiting.shift()) {
      const path = placeOf(file).includes("/") ? placeOf(file) : `frames/${placeOf(file)}`;
      let last = 0;
      try {
        await api.uploadToIntake(id, path, file, (share) => {
          sent += (share - last) * file.size;
          last = share;
          tellSending(phrase("intake.taking", { pictures, size: readableBytes(whole) }), sent / whole);
        });
      } catch (problem) {
        if (problem.status === 0) throw problem;
        failed.push({ path, problem: asSentence(problem.message) });
      }
      count += 1;
      tellSending(phrase("intake.taking-count", { pictures, done: count }), sent / whole);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, sender));
  } finally {
    isBusy = false;
  }
}

async function cutFirst() {
  tellSending(phrase("intake.cutting"));
  const { id } = intake ?? {};
  const found = await api.cutIntake(id, { by: "auto" });
  if (intake?.id !== id) return; // closed meanwhile
  takeCut(found);
  const [only] = stacks;
  if (stacks.length === 1 && !only.problem && !failed.length) {
    const job = await takeOne(only);
    if (!job) return;
    await end();
    show(job);
    return;
  }
  tellSending("");
  if (!stacks.length && !leftOut.length) {
    say(phrase("uploads.none-in", { name: intake.name || phrase("intake.the-folder") }), "error");
    await discard();
    return;
  }
  byId("intake-choice").hidden = false;
  draw();
  byId("intake-list").querySelector("input")?.focus();
  announce(phrase("intake.count", { stacks: plural(stacks.length, "stack") }));
}

function takeCut({ by, stacks: found, left_out: others }) {
  way = by;
  leftOut = others;
  const lasts = found.map(({ name }) => name.split("/").at(-1));
  stacks = found.map((stack, place) => {
    const isUnique = lasts.filter((last) => last === lasts[place]).length === 1;
    const problem = (stack.problem && told(stack.problem)) || (stack.frames.length < 2 && by !== "file" ? phrase("intake.one-picture") : "");
    return { ...stack, title: isUnique ? lasts[place] : stack.name.replaceAll("/", " - "), problem, wanted: !problem };
  });
}

async function cutAgain() {
  preview.abort(); // its answer is not wanted any more, and its tree may be gone before it comes
  preview = new AbortController();
  const { signal } = preview;
  const how = { by: way };
  if (TIMED.includes(way)) how.gap = Number(byId("intake-gap").value) || 10;
  const size = Number(byId("intake-size").value);
  if (way === "number" && size >= 2) how.size = size;
  if (way === "shoot") tellSending(phrase("intake.looking-into"));
  const found = await attempt(() => api.cutIntake(intake.id, how, signal).catch((problem) => signal.aborted || Promise.reject(problem)));
  if (signal.aborted) return;
  tellSending("");
  if (!found) return;
  takeCut(found);
  draw();
  announce(phrase("intake.count", { stacks: plural(stacks.length, "stack") }));
}

function row(stack, place) {
  const id = `intake-stack-${place}`;
  const names = stack.frames.map((path) => path.split("/").at(-1));
  return element(
    `li.intake-row${stack.problem ? ".problem" : ""}`,
    {},
    element("input", {
      type: "checkbox",
      id,
      checked: stack.wanted,
      "aria-label": phrase("intake.take", { name: stack.title }),
      onchange: (event) => {
        stack.wanted = event.target.checked;
        drawButtons();
      },
    }),
    element(
      "div.about",
      {},
      element("input", { type: "text", value: stack.title, maxlength: "120", "aria-label": phrase("intake.name", { number: place + 1 }), oninput: (event) => (stack.title = event.target.value) }),
      element("small", { title: names.join(", ") }, `${plural(names.length, "frame")}, ${readableBytes(stack.bytes)}: ${names.length > 1 ? phrase("page.range", { first: names[0], last: names.at(-1) }) : names[0]}`),
      stack.problem && element("small.bad", {}, asSentence(stack.problem)),
    ),
  );
}

function wayField([value, title]) {
  const choose = () => {
    way = value;
    attempt(cutAgain);
  };
  return element("label", {}, element("input", { type: "radio", name: "intake-way", value, onchange: choose }), element("span", {}, title));
}

function draw() {
  for (const field of document.getElementsByName("intake-way")) field.checked = field.value === way;
  byId("intake-hint").textContent = WAYS.find(([value]) => value === way)[2];
  byId("intake-gap-field").hidden = !TIMED.includes(way);
  byId("intake-size-field").hidden = way !== "number";
  byId("intake-list").replaceChildren(...stacks.map(row));
  const others = byId("intake-left-out");
  others.hidden = !leftOut.length;
  others.firstElementChild.textContent = phrase("intake.others", { pictures: plural(leftOut.length, "picture") });
  others.lastElementChild.replaceChildren(...leftOut.map(({ path, reason }) => element("li", {}, `${path}: ${told(reason)}`)));
  byId("intake-failed").replaceChildren(...failed.map(({ path, problem }) => element("li", {}, `${path}: ${problem}`)));
  drawButtons();
}

function drawButtons() {
  const count = stacks.filter(({ wanted }) => wanted).length;
  byId("intake-add").replaceChildren(icon("add"), phrase("intake.add", { stacks: plural(count, "stack") }));
  byId("intake-fuse").replaceChildren(icon("check"), phrase("intake.add-and-fuse", { stacks: plural(count, "stack") }));
  byId("intake-add").disabled = byId("intake-fuse").disabled = count === 0 || isBusy;
}

async function takeOne(stack) {
  const answer = await api.takeStack(intake.id, stack.title || stack.name, stack.frames);
  const bad = Object.keys(answer.left_out);
  if (bad.length) say(phrase("intake.left-out", { name: stack.title, count: bad.length, files: bad.slice(0, 3).join(", ") }), "bad");
  return answer.job;
}

/** Makes the stacks that are ticked; with `start` they go into the queue. */
async function take(start) {
  const wanted = stacks.filter((stack) => stack.wanted);
  const made = [];
  isBusy = true;
  drawButtons();
  try {
    for (const [place, stack] of wanted.entries()) {
      tellSending(phrase("intake.adding", { name: stack.title, place: place + 1, count: wanted.length }), place / wanted.length);
      const job = await attempt(() => takeOne(stack));
      if (!job) continue;
      made.push(job);
      if (start) await attempt(() => api.start(job.id, chosenOptions()));
    }
  } finally {
    isBusy = false;
    tellSending("");
  }
  if (made.length < wanted.length) {
    stacks = stacks.filter((stack) => !stack.wanted || !made.some(({ name }) => name === stack.title));
    if (!made.length) {
      drawButtons();
      return;
    }
  }
  await end();
  location.hash = made.length === 1 && !start ? `#/stack/${made[0].id}` : "#/library";
}

async function end() {
  const { id } = intake ?? {};
  intake = null;
  preview.abort();
  if (dialog.open) dialog.close();
  if (id) await api.deleteIntake(id).catch(() => null);
}

/** Lets go of what was sent. */
async function discard() {
  await end();
  stacks = [];
  if (location.hash.startsWith("#/intake/")) location.hash = "#/";
}

byId("intake-ways").append(...WAYS.map(wayField));
byId("intake-add").addEventListener("click", () => take(false));
byId("intake-fuse").addEventListener("click", () => take(true));
for (const id of ["intake-gap", "intake-size"]) byId(id).addEventListener("change", () => attempt(cutAgain));
dialog.addEventListener("close", () => intake && discard());
addEventListener("beforeunload", (event) => isBusy && event.preventDefault());
