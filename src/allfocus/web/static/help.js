// The top of the help: in which language the page is, and the way back to the tour.

import { byId, element } from "./elements.js";
import { say } from "./messages.js";
import { isSending } from "./state.js";
import { LANGUAGES, chooseLanguage, chosenLanguage, phrase } from "./texts.js";
import { startTour } from "./tour.js";

function onChoice(event) {
  if (isSending()) {
    event.target.value = chosenLanguage() ?? "";
    byId("shortcuts").close();
    say(phrase("help.sending"), "bad"); // the page is loaded anew, and frames on their way would be lost
    return;
  }
  chooseLanguage(event.target.value || null);
}

const option = ([code, name]) => element("option", { value: code, lang: code || null, selected: code === (chosenLanguage() ?? "") }, name);

byId("language").append(...Object.entries({ "": phrase("help.browser"), ...LANGUAGES }).map(option));
byId("language").addEventListener("change", onChoice);
byId("tour-start").addEventListener("click", () => {
  byId("shortcuts").close();
  startTour();
});
