// Project files: save the stack as one, open one, and say where its frames are when they are not on this machine.

import * as api from "./api.js";
import { asSentence, byId, element, icon, plural } from "./elements.js";
import { announce, attempt, say } from "./messages.js";
import { on, setJob, state } from "./state.js";
import { phrase } from "./texts.js";
import { filesOfFolder } from "./uploads.js";

export const isProject = ({ name }) => /\.allfocus$/i.test(name);

/** Opens project files as new stacks, and shows the last of them. */
export async function openProjects(files) {
  let opened = null;
  for (const file of files) {
    say(phrase("project.opening", { name: file.name }));
    opened = (await attempt(() => api.uploadProject(file, () => {}))) ?? opened;
  }
  if (!opened) return;
  setJob(opened);
  location.hash = `#/stack/${opened.id}`;
  const missing = absent(opened).length;
  say(missing ? phrase("project.open-missing", { name: opened.name, frames: plural(missing, "frame") }) : phrase("results.opened", { name: opened.name }), missing ? "note" : "good");
}

/** Links that save the present stack as a project. */
export function projectLinks(job) {
  const link = (frames, title, use) =>
    element("a.button.wide", { href: api.projectUrl(job.id, frames), download: "", id: `project-${frames}` }, icon("download"), element("span", {}, title), element("small", {}, use));
  return element(
    "div.field",
    {},
    element("h2", {}, phrase("project.heading")),
    element("p.hint", {}, phrase("project.hint")),
    element("div.downloads", {}, link("embedded", phrase("project.embedded"), phrase("project.embedded-use")), link("linked", phrase("project.linked"), phrase("project.linked-use"))),
  );
}

const absent = (job) => job?.frames.filter((frame) => frame.absent) ?? [];

function draw() {
  const { job } = state;
  const missing = absent(job);
  const box = byId("absent");
  box.hidden = missing.length === 0;
  if (box.hidden) return;
  const names = missing.map(({ name }) => name);
  box.replaceChildren(
    element("p", {}, element("strong", {}, `${phrase("project.missing", { count: missing.length })} `), names.slice(0, 4).join(", "), names.length > 4 ? ` ${phrase("project.more", { count: names.length - 4 })}` : ""),
    element("p.hint", {}, phrase("project.where")),
    element(
      "div.row.wrap",
      {},
      element("button.small", { id: "absent-files", onclick: () => byId("choose-absent").click() }, phrase("project.choose-files")),
      element("button.small", { id: "absent-folder", onclick: () => byId("choose-absent-folder").click() }, phrase("project.choose-folder")),
    ),
    state.limits?.local_folders && pathForm(job),
  );
}

function pathForm(job) {
  const field = element("input", { type: "text", id: "absent-path", "aria-label": phrase("project.path"), placeholder: "/photos/beetle", autocomplete: "off" });
  const button = element("button.small", { type: "submit" }, phrase("project.look"));
  const find = async (event) => {
    event.preventDefault();
    const news = await attempt(() => api.findFrames(job.id, field.value.trim()), button);
    if (news) report(news, absent(job).length);
  };
  return element("form.row", { onsubmit: find }, field, button);
}

function report(job, before) {
  if (state.job?.id === job.id) setJob(job);
  const left = absent(job).length;
  const found = before - left;
  const text = left === 0 ? phrase("project.all-found") : found ? phrase("project.found", { frames: plural(found, "frame"), left }) : phrase("project.none-found");
  say(text, left === 0 ? "good" : "bad");
  announce(text);
}

/** Sends those files whose size is that of a missing frame; the server knows them by their hash. */
async function restore(files) {
  let { job } = state;
  const before = absent(job).length;
  const sizes = new Set(absent(job).map(({ bytes }) => bytes));
  for (const file of files.filter(({ size }) => sizes.has(size))) {
    try {
      job = await api.uploadFound(job.id, file);
    } catch (problem) {
      if (problem.status !== 400) throw new Error(asSentence(problem.message)); // 400: another picture of that size
    }
    if (!absent(job).length) break;
  }
  report(job, before);
}

for (const [id, read] of [
  ["choose-absent", (list) => [...list]],
  ["choose-absent-folder", (list) => filesOfFolder(list).files],
]) {
  byId(id).addEventListener("change", (event) => {
    const files = read(event.target.files);
    event.target.value = "";
    attempt(() => restore(files));
  });
}
byId("choose-project").addEventListener("change", (event) => {
  const files = [...event.target.files];
  event.target.value = "";
  openProjects(files);
});
on("job", draw);
