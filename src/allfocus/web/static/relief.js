// The result draped over its depth, drawn with WebGL by hand: one mesh, one texture, one light; turned with the mouse.

import * as api from "./api.js";
import { byId } from "./elements.js";
import { attempt } from "./messages.js";
import { on, phase, state } from "./state.js";
import { phrase } from "./texts.js";
import { view } from "./viewer.js";

const SIDE = 320; // points of the mesh along the longer side
const TEXTURE_SIDE = 2048;
const AT_REST = { turn: 0.5, tilt: 0.62, distance: 1.5, height: 0.35 };

const VERTEX = `
  attribute vec3 place;
  uniform mat4 camera;
  uniform float height;
  uniform vec2 size, step;
  varying vec2 at;
  varying vec3 normal;
  attribute vec2 slope;
  void main() {
    at = place.xy;
    normal = normalize(vec3(slope.x * height / step.x, -slope.y * height / step.y, 1.0));
    gl_Position = camera * vec4((place.x - 0.5) * size.x, (0.5 - place.y) * size.y, (0.5 - place.z) * height, 1.0);
  }`;
const FRAGMENT = `
  precision mediump float;
  uniform sampler2D picture;
  varying vec2 at;
  varying vec3 normal;
  void main() {
    float light = 0.72 + 0.38 * max(0.0, dot(normalize(normal), normalize(vec3(-0.35, 0.5, 0.8))));
    gl_FragColor = vec4(texture2D(picture, at).rgb * light, 1.0);
  }`;

const canvas = byId("relief-canvas");
const note = byId("relief-note");
let scene = null; // { gl, program, count, ... } of the job whose relief is shown
let pose = { ...AT_REST };
let loaded = null; // "job/revision" of the scene

function compile(gl) {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  gl.useProgram(program);
  return program;
}

/** Corners and slopes of a grid over depth values 0 (near) to 1 (far), and the triangles between them. */
function mesh({ width, height, depth }) {
  const points = new Float32Array(width * height * 5);
  const at = (column, row) => depth[Math.min(height - 1, Math.max(0, row)) * width + Math.min(width - 1, Math.max(0, column))];
  for (let row = 0, next = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      points[next++] = column / (width - 1);
      points[next++] = row / (height - 1);
      points[next++] = at(column, row);
      points[next++] = (at(column + 1, row) - at(column - 1, row)) / 2;
      points[next++] = (at(column, row + 1) - at(column, row - 1)) / 2;
    }
  }
  const triangles = new Uint32Array((width - 1) * (height - 1) * 6);
  for (let row = 0, next = 0; row < height - 1; row += 1) {
    for (let column = 0; column < width - 1; column += 1) {
      const corner = row * width + column;
      triangles.set([corner, corner + width, corner + 1, corner + 1, corner + width, corner + width + 1], next);
      next += 6;
    }
  }
  return { points, triangles };
}

/** The result at the largest level that fits a texture, put together from its tiles. */
async function texturePicture() {
  const { store } = view;
  let level = 0;
  while (Math.max(store.width, store.height) / 2 ** level > TEXTURE_SIDE && level < store.levels - 1) level += 1;
  const span = store.size * 2 ** level;
  const picture = document.createElement("canvas");
  picture.width = Math.ceil(store.width / 2 ** level);
  picture.height = Math.ceil(store.height / 2 ** level);
  const context = picture.getContext("2d");
  const tiles = [];
  for (let row = 0; row * span < store.height; row += 1) {
    for (let column = 0; column * span < store.width; column += 1) tiles.push([column, row]);
  }
  await Promise.all(
    tiles.map(async ([column, row]) => context.drawImage(await store.load("result", level, column, row), column * store.size, row * store.size)),
  );
  return picture;
}

function prepare(gl, grid, picture) {
  const program = compile(gl);
  const { points, triangles } = mesh(grid);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, triangles, gl.STATIC_DRAW);
  for (const [name, count, offset] of [["place", 3, 0], ["slope", 2, 12]]) {
    const place = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, count, gl.FLOAT, false, 20, offset);
  }
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB, gl.RGB, gl.UNSIGNED_BYTE, picture);
  for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"]]) {
    gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], gl[value]);
  }
  gl.enable(gl.DEPTH_TEST);
  const longer = Math.max(grid.width, grid.height);
  const size = [grid.width / longer, grid.height / longer];
  gl.uniform2f(gl.getUniformLocation(program, "size"), ...size);
  gl.uniform2f(gl.getUniformLocation(program, "step"), size[0] / (grid.width - 1), size[1] / (grid.height - 1));
  return { gl, program, count: triangles.length };
}

/** Perspective times distance times turning, column by column as WebGL wants it. */
function cameraMatrix(ratio) {
  const near = 0.05;
  const far = 20;
  const focal = 2.3;
  const [cosTurn, sinTurn] = [Math.cos(pose.turn), Math.sin(pose.turn)];
  const [cosTilt, sinTilt] = [Math.cos(pose.tilt), Math.sin(pose.tilt)];
  // Turned around the upright axis first, then tilted towards the viewer.
  const rows = [
    [cosTurn, 0, sinTurn],
    [sinTilt * sinTurn, cosTilt, -sinTilt * cosTurn],
    [-cosTilt * sinTurn, sinTilt, cosTilt * cosTurn],
  ];
  const across = focal / Math.max(1, ratio);
  const down = across * ratio;
  const deep = -(far + near) / (far - near);
  const matrix = new Float32Array(16);
  for (let column = 0; column < 3; column += 1) {
    const [x, y, z] = rows.map((row) => row[column]);
    matrix.set([across * x, down * y, deep * z, -z], column * 4);
  }
  matrix.set([0, 0, -deep * pose.distance - (2 * far * near) / (far - near), pose.distance], 12);
  return matrix;
}

let scheduled = false;
function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    drawScene();
  });
}

function drawScene() {
  if (!scene || state.view !== "relief") return;
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const { gl, program, count } = scene;
  gl.viewport(0, 0, canvas.width, canvas.height);
  const [red, green, blue] = (getComputedStyle(canvas).backgroundColor.match(/[\d.]+/g) ?? [32, 33, 34]).map(Number);
  gl.clearColor(red / 255, green / 255, blue / 255, 1);
  gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  gl.uniformMatrix4fv(gl.getUniformLocation(program, "camera"), false, cameraMatrix(canvas.width / canvas.height));
  gl.uniform1f(gl.getUniformLocation(program, "height"), pose.height);
  gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 0);
  canvas.dataset.drawn = "true";
}

function refuse(text) {
  note.textContent = text;
  note.hidden = false;
  canvas.hidden = true;
}

async function show() {
  const key = `${state.job.id}/${state.job.result.revision}`;
  if (loaded === key) {
    redraw();
    return;
  }
  const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: false });
  if (!gl || !gl.getExtension("OES_element_index_uint")) {
    refuse(phrase("relief.missing"));
    return;
  }
  note.textContent = phrase("relief.building");
  note.hidden = false;
  const parts = await attempt(() => Promise.all([api.relief(state.job.id, SIDE), texturePicture()]));
  if (!parts) {
    refuse(phrase("relief.failed"));
    return;
  }
  scene = prepare(gl, ...parts);
  loaded = key;
  note.hidden = true;
  canvas.hidden = false;
  redraw();
}

function turnBy(x, y) {
  pose.turn = Math.min(1.45, Math.max(-1.45, pose.turn + x));
  pose.tilt = Math.min(1.5, Math.max(-0.4, pose.tilt + y));
  redraw();
}

function moveBy(factor) {
  pose.distance = Math.min(6, Math.max(0.7, pose.distance * factor));
  redraw();
}

function onKey(event) {
  const turns = { ArrowLeft: [-0.08, 0], ArrowRight: [0.08, 0], ArrowUp: [0, -0.08], ArrowDown: [0, 0.08] };
  if (turns[event.key]) turnBy(...turns[event.key]);
  else if (event.key === "+" || event.key === "=") moveBy(1 / 1.1);
  else if (event.key === "-") moveBy(1.1);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

const held = new Map();
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  canvas.focus({ preventScroll: true });
  held.set(event.pointerId, event);
});
canvas.addEventListener("pointermove", (event) => {
  const before = held.get(event.pointerId);
  if (!before) return;
  held.set(event.pointerId, event);
  if (held.size === 1) {
    turnBy((event.clientX - before.clientX) * 0.008, (event.clientY - before.clientY) * 0.008);
    return;
  }
  const other = [...held.values()].find(({ pointerId }) => pointerId !== event.pointerId);
  const distance = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
  moveBy(distance(before) / distance(event));
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => held.delete(event.pointerId));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  moveBy(Math.exp(event.deltaY * 0.001));
}, { passive: false });
canvas.addEventListener("keydown", onKey);
byId("relief-height").addEventListener("input", (event) => {
  pose.height = Number(event.target.value) / 100;
  redraw();
});
byId("relief-reset").addEventListener("click", () => {
  pose = { ...AT_REST };
  byId("relief-height").value = AT_REST.height * 100;
  redraw();
});
new ResizeObserver(redraw).observe(canvas);
on("view result theme", () => state.view === "relief" && phase() === "done" && show());
