// Draws the action of a step over its screenshot.
//
// The drawing has the pixels of the stored screenshot as its coordinates and covers the image exactly, so a mark is at its
// place at every scale. Lines keep their width on the screen: red within white within black, visible on any background.

import { h, s } from "./dom.js";
import { part } from "./api.js";
import { actionOf, actionWords } from "./words.js";

const LAYERS = ["edge", "casing", "core"];

// A screenshot with the mark of a step's action; without a step only the screenshot.
export function picture(screen, size, step, attributes) {
  if (!size) return h("div", { class: "screen missing" }, "this screen is not stored");
  const [width, height] = size;
  const image = h("img", {
    src: `/api/screens/${part(screen)}`, width, height, alt: step ? `Screen before step ${step.index + 1}` : "Screen",
    decoding: "async", ...attributes,
  });
  const frame = h("div", { class: "screen", "--ratio": `${width / height}` }, image, step && drawing(step, width, height));
  image.addEventListener("error", () => {
    frame.classList.add("missing");
    frame.replaceChildren("this screen cannot be shown");
  });
  return frame;
}

function drawing(step, width, height) {
  const action = actionOf(step);
  const shapes = action ? [...targetBox(step, width, height), ...actionShapes(action, Math.min(width, height))] : [];
  if (!shapes.length) return null;
  return s("svg", { class: "marks", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": actionWords(action) },
    LAYERS.map((layer) => shapes.map(([tag, attributes, thin]) =>
      s(tag, { ...attributes, class: `${layer}${thin ? " thin" : ""}`, "vector-effect": "non-scaling-stroke" }))));
}

function targetBox(step, width, height) {
  const bounds = step.target?.bounds;
  if (!bounds) return [];
  const [left, top, right, bottom] = bounds;
  if (2 * (right - left) * (bottom - top) >= width * height) return [];
  return [["rect", { x: left, y: top, width: Math.max(0, right - left), height: Math.max(0, bottom - top) }, true]];
}

function actionShapes(action, side) {
  const radius = Math.max(10, Math.round(side / 18));
  const { x, y } = action;
  if (!Number.isFinite(x) || !Number.isFinite(y)) return [];
  const circle = ["circle", { cx: x, cy: y, r: radius }];
  switch (action.kind) {
    case "swipe": case "drag": return arrow(x, y, action.x2, action.y2, radius);
    case "scroll": return arrow(x, y, x, y + 2 * radius * (action.clicks > 0 ? -1 : 1), radius);
    case "hscroll": return arrow(x, y, x + 2 * radius * (action.clicks > 0 ? 1 : -1), y, radius);
    case "long_press": return [circle, ["circle", { cx: x, cy: y, r: radius / 2 }]];
    case "click": return action.count > 1 ? [circle, ["circle", { cx: x, cy: y, r: radius * 1.4 }, true]] : [circle];
    default: return [circle];
  }
}

function arrow(x, y, x2, y2, radius) {
  const angle = Math.atan2(y2 - y, x2 - x);
  const tip = (turn) => `${x2 + radius * Math.cos(angle + Math.PI + turn)},${y2 + radius * Math.sin(angle + Math.PI + turn)}`;
  return [
    ["line", { x1: x, y1: y, x2, y2 }],
    ["polyline", { points: `${tip(-0.5)} ${x2},${y2} ${tip(0.5)}` }],
    ["circle", { cx: x, cy: y, r: radius / 5 }],
  ];
}
