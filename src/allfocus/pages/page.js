// Makes the page easier to use; everything on it can be read without.
"use strict";

// Light, dark, or what the system says.
const themes = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
let theme = 0;
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  theme = (theme + 1) % themes.length;
  if (theme) document.documentElement.dataset.theme = themes[theme];
  else delete document.documentElement.dataset.theme;
  themeButton.textContent = "theme: " + themes[theme];
});

// A click enlarges a picture; left and right exchange it for the next of the same scene or gallery in the same place.
const viewer = document.getElementById("viewer");
const image = viewer.querySelector("img");
const caption = viewer.querySelector("span");
let frames = [];
let shown = 0;
const show = (number) => {
  shown = (number + frames.length) % frames.length;
  const source = frames[shown].querySelector("img");
  image.src = source.src;
  // All of one shape have one size on the screen, however many pixels they have, so that they can be compared.
  image.style.setProperty("--ratio", source.naturalWidth / source.naturalHeight);
  image.alt = caption.textContent = frames[shown].dataset.label;
};
document.addEventListener("click", (event) => {
  const frame = event.target.closest(".frame");
  if (!frame) return;
  frames = [...frame.closest(".scene, .gallery").querySelectorAll(".frame")];
  show(frames.indexOf(frame));
  viewer.showModal();
});
viewer.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight") show(shown + 1);
  else if (event.key === "ArrowLeft") show(shown - 1);
});
viewer.addEventListener("click", (event) => {
  const step = event.target.dataset.step;
  if (step === "close" || event.target === viewer) viewer.close();
  else if (step) show(shown + Number(step));
});
