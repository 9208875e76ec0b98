// Two pictures in one paragraph become one, with a line between them that can be moved.
document.addEventListener("DOMContentLoaded", () => {
  for (const paragraph of document.querySelectorAll(".bd-article p")) {
    const pictures = [...paragraph.children].filter((child) => child.tagName === "IMG");
    if (pictures.length !== 2 || pictures.length !== paragraph.children.length) continue;
    const slider = document.createElement("input");
    slider.type = "range";
    slider.value = 50;
    slider.setAttribute("aria-label", `${pictures[0].alt}; ${pictures[1].alt}: how much of the first is shown`);
    const place = () => paragraph.style.setProperty("--shown", `${slider.value}%`);
    slider.addEventListener("input", place);
    paragraph.classList.add("compare");
    paragraph.append(slider);
    place();
  }
});
