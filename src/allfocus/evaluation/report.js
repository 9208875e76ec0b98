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
