// Starts the page: loads what the server offers, follows the address, and wires the drop zone and the panels.

import "./alternatives.js";
import * as api from "./api.js";
import "./compare.js";
import "./connection.js";
import { asSentence, byId, element, icon, readableHours } from "./elements.js";
import "./faults.js";
import "./finish_panel.js";
import { isDraggingCard } from "./frames.js";
import "./help.js";
import { openIntake, takeFolder, takeImage, takeTree } from "./intake.js";
import { leaveLibrary, openLibrary, rename } from "./library.js";
import { attempt, clearErrors, say } from "./messages.js";
import { drawOptions, loadOptions } from "./options.js";
import "./progress.js";
import { isProject, openProjects } from "./project.js";
import "./relief.js";
import { openReports } from "./reports.js";
import "./results.js";
import "./save.js";
import "./shortcuts.js";
import { addressOf } from "./stacks.js";
import "./stroke_list.js";
import { emit, on, phase, setJob, state } from "./state.js";
import { phrase, told } from "./texts.js";
import "./theme.js";
import { startFirstTour } from "./tour.js";
import { addFiles, filesOfDrop, filesOfFolder } from "./uploads.js";

// The address: #/ is a new stack, #/stack/ID one that the server keeps, #/library all of them, #/intake/ID a folder that
// waits to be cut into stacks, #/benchmarks the reports ------------------------------------------------------------

async function followAddress(first = false) {
  const [, place, id] = location.hash.split("/");
  document.body.dataset.page = ["benchmarks", "library"].includes(place) ? place : "studio";
  if (place === "library") await openLibrary();
  else leaveLibrary();
  for (const link of document.querySelectorAll("[data-place]")) {
    if (link.dataset.place === document.body.dataset.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (place === "benchmarks") {
    await openReports();
    return;
  }
  if (place === "library") return;
  if (place === "stack" && state.job?.id === id) return;
  if (place !== "stack") {
    // Files may have been dropped before the page knew its address.
    if (first && (state.job || state.uploads.length)) return;
    state.uploads = [];
    setJob(null);
    if (place === "intake") await openIntake(decodeURIComponent(id));
    return;
  }
  const asked = location.hash;
  const job = await attempt(() => api.readJob(decodeURIComponent(id)));
  if (location.hash !== asked) return; // somebody went on meanwhile
  if (job) setJob(job);
  else location.hash = "#/";
}

/** Names the stack that has come on the page. Only then: what is heard of the one at hand must not undo that somebody leaves it. */
function writeAddress({ before }) {
  const { job } = state;
  if (job && job.id !== before?.id && document.body.dataset.page === "studio") history.replaceState(null, "", addressOf(job));
}

/** The studio's link leads back to the stack at hand, from the benchmarks too. */
function drawPlace() {
  const { job } = state;
  byId("studio-link").href = job ? addressOf(job) : "#/";
  byId("stack-name").textContent = job ? job.name || phrase("page.stack") : "";
  byId("rename").hidden = !job;
  const before = document.body.dataset.phase;
  document.body.dataset.phase = phase();
  if (before !== phase() && phase() !== "welcome") clearErrors();
  if (before !== "done" && phase() === "done") showPanel("picture");
  else if (before === "done" && phase() !== "done") showPanel("frames");
  const trouble = byId("trouble");
  trouble.hidden = !(job && phase() !== "running" && (job.state === "failed" || job.state === "cancelled"));
  if (trouble.hidden) return;
  trouble.className = `trouble ${job.state}`;
  trouble.replaceChildren(
    icon("warning"),
    element("p", {}, job.state === "failed" ? asSentence(job.error ? told(job.error, { code: job.error_code }) : phrase("main.failed")) : job.result ? phrase("main.cancelled-before") : phrase("main.cancelled")),
  );
}

// Files ---------------------------------------------------------------------------------------------------------

function wireFiles() {
  for (const button of document.querySelectorAll("[data-choose]")) {
    button.addEventListener("click", () => byId(`choose-${button.dataset.choose}`).click());
  }
  byId("choose-files").addEventListener("change", (event) => take(event, (list) => ({ files: [...list], folder: null })));
  byId("choose-folder").addEventListener("change", (event) => take(event, filesOfFolder));
  byId("choose-tree").addEventListener("change", (event) => take(event, filesOfFolder));
  byId("sample").addEventListener("click", () => openSample(byId("sample")));
  byId("server-folder").addEventListener("submit", addServerFolder);
  let depth = 0;
  const carriesFiles = (event) => !isDraggingCard() && [...(event.dataTransfer?.types ?? [])].includes("Files");
  const mark = (wanted) => document.body.classList.toggle("dropping", wanted);
  addEventListener("dragenter", (event) => carriesFiles(event) && mark((depth += 1) > 0 && phase() !== "running"));
  addEventListener("dragleave", (event) => carriesFiles(event) && mark((depth = Math.max(0, depth - 1)) > 0));
  addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    depth = 0;
    mark(false);
    if (!carriesFiles(event)) return;
    event.preventDefault(); // in every phase: the browser would leave the page and show the file
    if (phase() === "running" && document.body.dataset.page !== "library") {
      say(phrase("main.locked"), "bad");
      return;
    }
    const found = filesOfDrop(event.dataTransfer);
    attempt(async () => bring(await found));
  });
}

function take(event, read) {
  const chosen = read(event.target.files);
  event.target.value = ""; // so that the same files can be chosen again
  attempt(() => bring(chosen));
}

/** Projects are opened, and so is an OME-Zarr, which is a folder; any other folder is cut into stacks, unless it is added to the stack at hand; files become frames. */
async function bring({ files, folder, isImage }) {
  const projects = files.filter(isProject);
  if (projects.length) return openProjects(projects);
  if (isImage) return takeImage({ files, folder });
  const inLibrary = document.body.dataset.page === "library";
  if (folder && files.length && (inLibrary || !(state.job || state.uploads.length))) return takeTree({ files, folder });
  if (inLibrary) setJob(null);
  if (document.body.dataset.page !== "studio") location.hash = state.job ? addressOf(state.job) : "#/";
  return addFiles({ files, folder });
}

async function openSample(button) {
  const job = await attempt(() => api.createSample(state.limits.samples[0]), button);
  if (job) setJob(job);
}

async function addServerFolder(event) {
  event.preventDefault();
  const path = byId("server-path").value.trim();
  if (!path) return;
  const [, image] = /([^/\\]+)\.zarr[/\\]?$/i.exec(path) ?? []; // an OME-Zarr is one stack, though it is a folder
  if (image && !state.job) setJob(await attempt(() => api.createJob(image), byId("server-add")));
  if (state.job) await attempt(async () => setJob(await api.addFolder(state.job.id, path)), byId("server-add"));
  else await takeFolder(path);
}

// Panels --------------------------------------------------------------------------------------------------------

function showPanel(name) {
  document.body.dataset.panel = name;
  for (const button of document.querySelectorAll("[data-panel-button]")) {
    button.setAttribute("aria-pressed", String(button.dataset.panelButton === name));
  }
}

/** The name at the top becomes a field until Enter, Escape or a click elsewhere. */
function wireRename() {
  const [button, shown] = [byId("rename"), byId("stack-name")];
  button.append(icon("pencil"));
  button.addEventListener("click", () => {
    const { id, name } = state.job;
    const field = element("input", { type: "text", id: "rename-field", value: name, maxlength: "120", "aria-label": phrase("page.new-name") });
    let isOver = false; // taking the field away ends its focus, which ends the editing once more
    const end = async (keep) => {
      if (isOver) return;
      isOver = true;
      const text = field.value.trim();
      field.remove();
      shown.hidden = false;
      button.hidden = !state.job;
      button.focus();
      if (keep && text && text !== name) await rename(id, text);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      else if (event.key === "Escape") end(false);
      event.stopPropagation();
    });
    field.addEventListener("blur", () => end(true));
    shown.hidden = button.hidden = true;
    shown.after(field);
    field.select();
  });
}

function showTool(name, focus = false) {
  for (const tab of document.querySelectorAll("#tool-tabs [role=tab]")) {
    const chosen = tab.dataset.tool === name;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  document.body.dataset.tool = name; // with the settings at hand, the frames beside the result can be changed too
  emit("tool", name);
}

function wirePanels() {
  for (const button of document.querySelectorAll("[data-panel-button]")) {
    button.addEventListener("click", () => showPanel(button.dataset.panelButton));
  }
  const tabs = [...document.querySelectorAll("#tool-tabs [role=tab]")];
  for (const [place, tab] of tabs.entries()) {
    tab.addEventListener("click", () => showTool(tab.dataset.tool));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      showTool(tabs[(place + step + tabs.length) % tabs.length].dataset.tool, true);
    });
  }
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && !["token", "intake"].includes(dialog.id) && dialog.close());
  }
}

/** The options are one form; it stands beside the frames before the first result and among the tools after it. */
function placeOptions() {
  const home = byId(phase() === "done" ? "settings" : "prepare-options");
  if (byId("options").parentElement !== home) home.append(byId("options"));
}

function askForToken() {
  const dialog = byId("token");
  if (!dialog.open) dialog.showModal();
}

async function begin() {
  api.whenTokenWanted(askForToken);
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(`/?token=${encodeURIComponent(byId("token-value").value.trim())}`);
  });
  wireFiles();
  wirePanels();
  wireRename();
  showTool("retouch");
  showPanel("frames");
  on("job", writeAddress);
  on("job uploads", drawPlace);
  on("job uploads", placeOptions);
  on("show-picture", () => showPanel("picture"));
  on("show-tool", (name) => showTool(name));
  const options = attempt(loadOptions);
  const [limits, methods, health] = await Promise.all([attempt(api.limits), attempt(api.methods), attempt(api.health)]);
  state.limits = limits ?? null;
  state.methods = methods ?? [];
  byId("version").textContent = health?.version ? `allfocus ${health.version}` : "";
  byId("sample").hidden = !state.limits?.samples?.length;
  byId("server-folder").hidden = !state.limits?.local_folders;
  const lifetime = state.limits?.lifetime_hours;
  byId("lifetime").textContent = lifetime ? phrase("welcome.lifetime", { time: readableHours(lifetime) }) : phrase("welcome.until-deleted");
  drawOptions();
  options.then(() => drawOptions()); // the description of the interface is the largest answer, and nothing else waits for it
  addEventListener("hashchange", () => attempt(() => followAddress()));
  await followAddress(true);
  startFirstTour();
}

begin().catch((problem) => say(problem.message, "error"));
