// Small helpers that make DOM nodes, so that no text from a file name ever passes through innerHTML.

import { decimal, phrase } from "./texts.js";







/**
 * Makes one element: element("button.quiet", { onclick, "aria-label": "Close" }, "x").
 * Properties that start with "on" become listeners; true, false and null set or leave out the attribute.
 */
export function element(kind, properties = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

const SHAPES = {
  add: "M12 5v14M5 12h14",
  folder: "M3 7a2 2 0 0 1 2-2h4l2 2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
  frames: "M4 8h12v12H4zM8 8V4h12v12h-4",
  close: "M6 6l12 12M18 6L6 18",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  earlier: "M14 6l-6 6 6 6",
  later: "M10 6l6 6-6 6",
  undo: "M9 5L4 10l5 5M4 10h10a5 5 0 0 1 0 10h-3",
  redo: "M15 5l5 5-5 5M20 10H10a5 5 0 0 0 0 10h3",
  brush: "M20 4L10 14M10 14c-3 0-4 2-4 6 4 0 6-1 6-4z",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 18v.01",
  history: "M4 12a8 8 0 1 0 3-6.2M4 4v4h4M12 8v4l3 2",
  chart: "M4 20h16M7 16v-5M12 16V6M17 16v-8",
  check: "M5 12l5 5 9-10",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.01",
  target: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12 2v5M12 17v5M2 12h5M17 12h5",
  tools: "M4 7h10M18 7h2M14 4v6M4 17h2M10 17h10M10 14v6",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4",
  pencil: "M4 20l1-5L16 4l4 4L9 19zM14 6l4 4",
  up: "M6 14l6-6 6 6",
  down: "M6 10l6 6 6-6",
  pause: "M9 5v14M15 5v14",
  play: "M7 5l12 7-12 7z",
  plus: "M12 6v12M6 12h12",
  minus: "M6 12h12",
  eye: "M2 12c3-5 6-7 10-7s7 2 10 7c-3 5-6 7-10 7s-7-2-10-7zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  hidden: "M4 4l16 16M6 7c-2 1-3 3-4 5 3 5 6 7 10 7 2 0 4-1 5-2M10 5c5-1 9 2 12 7-1 2-2 3-3 4",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  compare: "M12 3v18M9 6H4v12h5M15 6h5v12h-5",
};

/** A drawn sign of 24 x 24 units; decoration only, the button around it carries the name. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  drawing.setAttribute("class", "icon");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", SHAPES[name]);
  drawing.append(path);
  return drawing;
}

const UNITS = ["bytes", "kilobytes", "megabytes", "gigabytes", "terabytes"];

/** 1536 -> "1.5 KB". */
export function readableBytes(bytes) {
  const step = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** step;
  return phrase(`units.${UNITS[step]}`, { value: decimal(value, step && value < 10 ? 1 : 0) });
}

/** 95 -> "1 min 35 s". */
export function readableSeconds(seconds, digits = 1) {
  if (seconds < 90) return phrase("units.seconds", { seconds: decimal(seconds, seconds < 10 ? digits : 0) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 90) return phrase("units.minutes", { minutes, seconds: Math.round(seconds % 60) });
  return phrase("units.hours", { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

/** The same without a fraction, for what is only guessed. */
export const roundSeconds = (seconds) => readableSeconds(Math.max(1, Math.floor(seconds)), 0);

/** 168 -> "7 days". */
export const readableHours = (hours) => (hours >= 48 ? plural(Math.round(hours / 24), "day") : plural(Math.round(hours * 10) / 10, "hour"));

/** 3, "frame" -> "3 frames". */
export const plural = (count, word) => phrase(`count.${word}`, { count });

/** "nothing was moved" -> "Nothing was moved."; a file name at the front keeps its letters. */
export function asSentence(text) {
  const trimmed = text.trim();
  const isWord = /^\p{Ll}+[ ,’]/u.test(trimmed);
  return `${isWord ? trimmed.charAt(0).toUpperCase() + trimmed.slice(1) : trimmed}${/[.?!…]$/.test(trimmed) ? "" : "."}`;
}

/** The name without its folder and ending: "shots/DSC_1.tif" -> "DSC_1". */
export const stem = (name) => name.replace(/^.*[\\/]/, "").replace(/\.[^.]+$/, "");
