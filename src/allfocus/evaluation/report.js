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

// The picture under the pointer is marked in all plots of its set.
for (const set of document.querySelectorAll("section.set")) {
  const shapes = new Map();
  for (const shape of set.querySelectorAll("[data-picture]")) {
    const number = shape.dataset.picture;
    if (!shapes.has(number)) shapes.set(number, []);
    shapes.get(number).push(shape);
  }
  const mark = (event, on) => {
    const number = event.target.dataset && event.target.dataset.picture;
    for (const shape of shapes.get(number) || []) shape.classList.toggle("marked", on);
  };
  set.addEventListener("pointerover", (event) => mark(event, true));
  set.addEventListener("pointerout", (event) => mark(event, false));
}

// A click enlarges a picture; left and right exchange it for the next of the same scene in the same place.
const viewer = document.getElementById("viewer");
const image = viewer.querySelector("img");
const caption = viewer.querySelector("span");
let frames = [];
let shown = 0;
const show = (number) => {
  shown = (number + frames.length) % frames.length;
  image.src = frames[shown].querySelector("img").src;
  image.alt = caption.textContent = frames[shown].dataset.label;
};
document.addEventListener("click", (event) => {
  const frame = event.target.closest(".frame");
  if (!frame) return;
  frames = [...frame.closest(".scene").querySelectorAll(".frame")];
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
