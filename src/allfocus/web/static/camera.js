// Where we look: the picture's point in the middle of a pane, and how many screen pixels one of its pixels takes.
// Screen pixels are those of the device, so scale 1 is 100 %: one pixel of the result on one pixel of the screen.

export const LARGEST_SCALE = 32;

/** The scale at which the whole picture is seen with a small margin; never larger than the picture itself. */
export function fittingScale(picture, pane) {
  const margin = 0.97;
  return Math.min(1, (pane.width / picture.width) * margin, (pane.height / picture.height) * margin);
}

export function fit(picture, pane) {
  return { x: picture.width / 2, y: picture.height / 2, scale: fittingScale(picture, pane) };
}

/** The camera after a change of scale that keeps the picture's point under the cursor where it is. */
export function zoomAt(camera, picture, pane, screen, scale) {
  const next = Math.min(LARGEST_SCALE, Math.max(fittingScale(picture, pane) / 2, scale));
  const point = toPicture(camera, pane, screen);
  const centre = { x: pane.left + pane.width / 2, y: pane.top + pane.height / 2 };
  const moved = { x: point.x - (screen.x - centre.x) / next, y: point.y - (screen.y - centre.y) / next, scale: next };
  return keepInside(moved, picture);
}

/** The middle of the view stays on the picture, so that it cannot be lost. */
export function keepInside(camera, picture) {
  return {
    x: Math.min(picture.width, Math.max(0, camera.x)),
    y: Math.min(picture.height, Math.max(0, camera.y)),
    scale: camera.scale,
  };
}

export function toPicture(camera, pane, screen) {
  return {
    x: camera.x + (screen.x - pane.left - pane.width / 2) / camera.scale,
    y: camera.y + (screen.y - pane.top - pane.height / 2) / camera.scale,
  };
}

export function toScreen(camera, pane, point) {
  return {
    x: pane.left + pane.width / 2 + (point.x - camera.x) * camera.scale,
    y: pane.top + pane.height / 2 + (point.y - camera.y) * camera.scale,
  };
}
