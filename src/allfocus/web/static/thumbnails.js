// Thumbnails of frames, asked for when they are seen, two at a time and after the result: the server may have to read a
// whole frame for one, and the browser has six connections for everything.

import { on, phase } from "./state.js";
import { canvas } from "./viewer.js";

const AT_ONCE = 2;
const waiting = [];
let underWay = 0;

const isFree = () => underWay < AT_ONCE && (phase() !== "done" || canvas.dataset.complete === "true");

function askNext() {
  while (waiting.length && isFree()) {
    const { picture, address } = waiting.shift();
    const end = () => {
      underWay -= 1;
      askNext();
    };
    underWay += 1;
    picture.addEventListener("load", end, { once: true });
    picture.addEventListener("error", end, { once: true });
    picture.src = address;
  }
}

const addresses = new WeakMap();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    waiting.push({ picture: target, address: addresses.get(target) });
  }
  askNext();
});

/** Lets an <img> have its thumbnail once it is seen. */
export function showThumbnail(picture, address) {
  addresses.set(picture, address);
  seen.observe(picture);
  return picture;
}

on("drawn job", askNext);
