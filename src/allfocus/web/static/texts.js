// Every text of the page comes from the tables in texts/, one for each language; this module chooses the table, fills in
// what the page itself holds, and writes numbers as the language does.

import german from "./texts/de.js";
import english from "./texts/en.js";
import french from "./texts/fr.js";

/** Each language by its code, named in itself. */
export const LANGUAGES = { en: "English", de: "Deutsch", fr: "Français" };
const TABLES = { en: english, de: german, fr: french }; // all of them: a page that waited for one would miss what is dropped on it
const KEY = "allfocus-language";
const FALLBACK = "en";

/** The language that was chosen here, or null to follow the browser. */
export function chosenLanguage() {
  try {
    const code = localStorage.getItem(KEY);
    return code in LANGUAGES ? code : null;
  } catch {
    return null;
  }
}

/** Remembers a language, or with null to follow the browser, and shows the page in it. */
export function chooseLanguage(code) {
  try {
    if (code) localStorage.setItem(KEY, code);
    else localStorage.removeItem(KEY);
  } catch {
    return; // a private window may refuse storage; the browser's own setting then decides
  }
  location.reload();
}

const wanted = navigator.languages.map((tag) => tag.toLowerCase().split("-")[0]);
/** The code of the page's language. */
export const language = chosenLanguage() ?? wanted.find((code) => code in LANGUAGES) ?? FALLBACK;

/** For dates and numbers: with the region of the browser where that is of the page's language. */
export const locale = navigator.languages.find((tag) => tag.toLowerCase().split("-")[0] === language) ?? language;

const table = TABLES[language];
const forms = new Intl.PluralRules(language);
const whole = new Intl.NumberFormat(locale, { useGrouping: "min2", maximumFractionDigits: 3 });

const fill = (pattern, values) =>
  pattern.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? whole.format(values[name]) : String(values[name])));

/** The text of a key with its values filled in; where it has several forms, `count` chooses. */
export function phrase(key, values = {}) {
  const entry = table[key];
  if (entry === undefined) throw new Error(`no text for ${key}`);
  return fill(typeof entry === "string" ? entry : (entry[forms.select(values.count)] ?? entry.other), values);
}

/** What the server says in English, in the language of the page where its table has it under this key. */
export const serverPhrase = (key, english) => table[`server.${key}`] ?? english;

const SAID = "server.said.";
const sayings = Object.keys(table)
  .filter((key) => key.startsWith(SAID))
  .map((key) => {
    const plain = key.slice(SAID.length).replace(/[.*+?^$()|[\]\\]/g, "\\$&");
    return [new RegExp(`^${plain.replace(/\{\d\}/g, "(.+?)")}$`), table[key]];
  });

/** A sentence whose words are known, in the language of the page; what it says of a sentence within it as well. */
function knownWords(english) {
  for (const [pattern, text] of sayings) {
    const found = pattern.exec(english);
    if (found) return fill(text, found.slice(1).map((value) => knownWords(value) ?? value));
  }
  return null;
}

/** The same for a sentence behind the name of what it is about: "frame_3.tif: palette expanded to RGB". */
function knownBehindName(english) {
  for (let end = english.indexOf(": "); end > 0; end = english.indexOf(": ", end + 1)) {
    const words = knownWords(english.slice(end + 2));
    if (words !== null) return `${english.slice(0, end)}: ${words}`;
  }
  return null;
}

/**
 * A sentence of the server in the language of the page: known by its words; or else by the code of the error or the status
 * of the answer, with the English behind it, which says more.
 */
export function told(english, { code, status } = {}) {
  const known = knownWords(english) ?? knownBehindName(english);
  if (known !== null) return known;
  const lead = table[`server.error.${code}`] ?? table[`server.status.${status}`];
  return lead ? `${lead} (${english})` : english;
}

/** A number with so many digits after the point, as the language writes it. */
export const decimal = (value, digits) => new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value || 0); // not -0

/** Fills in the texts of the page itself; what stands between backticks is code. */
function fillPage() {
  document.documentElement.lang = language;
  for (const node of document.querySelectorAll("[data-phrase]")) {
    const parts = phrase(node.dataset.phrase).split("`");
    node.replaceChildren(...parts.map((part, place) => (place % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part)));
  }
  const attributes = { phraseLabel: "aria-label", phraseTitle: "title", phrasePlaceholder: "placeholder" };
  for (const [name, attribute] of Object.entries(attributes)) {
    const marked = document.querySelectorAll(`[data-${name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)}]`);
    for (const node of marked) node.setAttribute(attribute, phrase(node.dataset[name]));
  }
}

fillPage();
