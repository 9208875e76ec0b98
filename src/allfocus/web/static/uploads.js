// From a drop or a file dialog to frames on the server: collects files (folders too), sorts them, sends them.

import * as api from "./api.js";
import { askWhich } from "./channels.js";
import { asSentence, readableBytes, stem } from "./elements.js";
import { say } from "./messages.js";
import { arrangements, emit, inTurn, isSending, setJob, state } from "./state.js";
import { phrase } from "./texts.js";

const AT_ONCE = 2;
const MAY_HELP = [0, 408, 429, 500, 507]; // answers after which sending the same file again may help

const naturally = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
export const byName = (first, second) => naturally.compare(first.name, second.name);

const places = new WeakMap(); // file -> where it lay below what was dropped

/** Where a file lay in the folder that was dropped or chosen, the folder's own name first. */
export const placeOf = (file) => places.get(file) ?? (file.webkitRelativePath || file.name);

const OF_IMAGE = ["zarr.json", ".zgroup", ".zattrs"]; // every OME-Zarr has one of them at its top

/** All files of a drop, the contents of dropped folders included: { files, folder, isImage }. */
export async function filesOfDrop(transfer) {
  // The list of items dies when the event handler first waits, so every entry is taken out before that.
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const loose = entries.length ? [] : [...transfer.files];
  const files = [...loose];
  let [folder, isImage] = [null, false];
  for (const entry of entries) {
    if (entry.isDirectory) folder ??= entry.name;
    const children = entry.isDirectory ? await childrenOf(entry) : [];
    isImage = entries.length === 1 && children.some(({ name }) => OF_IMAGE.includes(name));
    const wanted = isImage || entry.isFile ? () => true : isFrameOfFolder;
    for (const child of entry.isDirectory ? children : [entry]) files.push(...(await filesOfEntry(child, wanted)));
  }
  return { files, folder, isImage };
}

async function filesOfEntry(entry, wanted) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    places.set(file, entry.fullPath.replace(/^\//, ""));
    return wanted(file) ? [file] : [];
  }
  const found = [];
  for (const child of await childrenOf(entry)) found.push(...(await filesOfEntry(child, wanted)));
  return found;
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const found = [];
  // readEntries hands out at most 100 entries a call and an empty list at the end.
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...some);
  }
}

/** What a folder may hold besides frames is left out quietly; a file that was chosen by itself is always sent, because
 * the server recognises pictures by their content. Which endings are pictures, the server says. */
const isFrameOfFolder = ({ name }) =>
  !name.startsWith(".") && (state.limits?.endings?.some((ending) => name.toLowerCase().endsWith(ending)) ?? true);

/** The frames of a folder that was chosen in the dialog: { files, folder, isImage }. */
export function filesOfFolder(list) {
  const all = [...list];
  const folder = all[0]?.webkitRelativePath.split("/")[0] || null;
  const isImage = all.some(({ webkitRelativePath }) => OF_IMAGE.some((name) => webkitRelativePath === `${folder}/${name}`));
  return { files: isImage ? all : all.filter(isFrameOfFolder), folder, isImage };
}

/** What all names begin with, as a name for the stack: DSC_0101.tif ... DSC_0108.tif -> "DSC_0101 to DSC_0108". */
function stackName(files) {
  const pictures = files.filter(isFrameOfFolder);
  const names = (pictures.length ? pictures : files).map((file) => stem(file.name));
  return names.length > 1 ? phrase("page.range", { first: names[0], last: names.at(-1) }) : names[0];
}

// Frames that are still on their way would be lost with the page.
addEventListener("beforeunload", (event) => isSending() && event.preventDefault());

/** Why a file cannot even be sent, or null. */
function refusal(file, limits) {
  if (file.size === 0) return phrase("uploads.empty");
  if (limits && file.size > limits.upload_bytes) {
    return phrase("uploads.too-large", { size: readableBytes(file.size), most: readableBytes(limits.upload_bytes) });
  }
  return null;
}

/** Sends files as new frames of the present job (a new one if there is none), in natural order of their names. */
export async function addFiles({ files, folder }) {
  if (!files.length) {
    say(
      folder
        ? phrase("uploads.none-in", { name: folder })
        : phrase("uploads.nothing"),
      "error",
    );
    return;
  }
  const sorted = [...files].sort(byName);
  const room = (state.limits?.frames ?? Infinity) - (state.job?.frames.length ?? 0) - state.uploads.length;
  if (sorted.length > room) {
    say(phrase("uploads.too-many", { most: state.limits.frames }), "error");
    return;
  }
  const uploads = sorted.map((file) => ({ file, name: file.name, share: 0, problem: refusal(file, state.limits) }));
  state.uploads.push(...uploads);
  emit("uploads");
  try {
    if (!state.job) setJob(await api.createJob(folder ?? stackName(sorted)));
  } catch (problem) {
    state.uploads = state.uploads.filter((upload) => !uploads.includes(upload));
    emit("uploads");
    throw problem;
  }
  await sendAll(state.job.id, uploads.filter((upload) => !upload.problem));
}

async function sendAll(id, uploads) {
  const before = new Set(state.job.frames.map((frame) => frame.id));
  const waiting = [...uploads];
  let sent = 0;
  const sender = async () => {
    for (let upload = waiting.shift(); upload; upload = waiting.shift()) {
      try {
        const frame = await sendFile(id, upload);
        if (!frame) {
          dismissUpload(upload);
          continue;
        }
        sent += 1;
        state.uploads = state.uploads.filter((other) => other !== upload);
        const isNew = !state.job?.frames.some(({ id: known }) => known === frame.id);
        if (state.job?.id === id && isNew) setJob({ ...state.job, frames: [...state.job.frames, frame] });
      } catch (problem) {
        upload.problem = asSentence(problem.message);
        upload.mayHelp = MAY_HELP.includes(problem.status);
      }
      emit("uploads");
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sender));
  if (sent) await putInOrder(id, before);
  const failed = uploads.filter((upload) => upload.problem).length;
  if (failed) say(phrase("uploads.failed", { count: failed }), "bad");
}

let asking = Promise.resolve(null); // one question at a time

/** The first frame of a file; null when it holds several stacks and nobody wants one of them. */
async function sendFile(id, upload) {
  const tell = (share) => {
    upload.share = share;
    emit("upload", upload);
  };
  const answer = await api.uploadFrame(id, upload.file, tell);
  if (!answer.choose) return answer;
  asking = asking.then(() => askWhich(upload.name, answer.choose));
  const which = await asking;
  return which && api.uploadFrame(id, upload.file, tell, which);
}

/** Two files travel at a time, so they may arrive in another order than that of their names. */
async function putInOrder(id, before) {
  // Only the server knows all frames: a file with several pictures gives several, and the stack may be left meanwhile.
  const arranged = arrangements.count;
  const job = await inTurn(async () => {
    const { frames } = await api.readJob(id);
    if (arrangements.count !== arranged) return null;
    const kept = frames.filter((frame) => before.has(frame.id));
    const added = frames.filter((frame) => !before.has(frame.id)).sort(byName);
    const isNatural = kept.every((frame, place) => place === 0 || byName(kept[place - 1], frame) <= 0);
    return api.orderFrames(id, isNatural ? [...kept, ...added].sort(byName) : [...kept, ...added]);
  });
  if (job && state.job?.id === id && arrangements.count === arranged) setJob(job);
}

/** Sends a file again that could not be sent before. */
export async function sendAgain(upload) {
  if (!state.job) return;
  Object.assign(upload, { problem: null, share: 0 });
  emit("uploads");
  await sendAll(state.job.id, [upload]);
}

/** Takes a card with a problem off the list. */
export function dismissUpload(upload) {
  state.uploads = state.uploads.filter((other) => other !== upload);
  emit("uploads");
}
