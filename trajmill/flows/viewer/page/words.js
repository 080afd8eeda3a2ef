// Says values in words, and draws the small signs that stand for them.

import { h } from "./dom.js";
import { part } from "./api.js";

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);
export const hundredths = (value) => value.toFixed(2);
export const decimal = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
export const money = (price) => (price >= 1 || !price ? price.toFixed(2) : String(Number(price.toPrecision(2))));
export const whole = (value) => value.toLocaleString("en");
// The distinctive part of names like `embedded-3e756bcd0d2167ea`.
export function tail(name) {
  const last = (name ?? "").slice((name ?? "").lastIndexOf("-") + 1);
  return last.length < 6 ? name || "–" : last.slice(0, 8);
}

export const address = (row) => `/trajectories/${part(row.run_id)}/${part(row.trajectory_id)}`;

export function seconds(value) {
  if (value < 100) return `${value.toFixed(1)} s`;
  if (value < 6000) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function moment(time) {
  if (!time) return "";
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 16).replace("T", " ");
}

const TONES = {
  passed: "good", correct: "good", GOOD: "good",
  "not passed": "bad", incorrect: "bad", HARMFUL: "bad",
  void: "warn", unjudged: "flat", unchecked: "flat", NEUTRAL: "flat",
};

export const badge = (word, prefix = "", tone = TONES[word] ?? "flat") =>
  h("span", { class: `badge ${tone}` }, prefix ? `${prefix} ` : "", String(word).toLowerCase());

// An action in a few words, e.g. `click 618, 438`.
export function actionWords(action) {
  if (!action) return "no action could be read";
  const at = action.x === undefined || action.x === null ? "" : ` ${action.x}, ${action.y}`;
  switch (action.kind) {
    case "click": {
      const times = ["", "", "double ", "triple "][action.count] ?? "";
      return `${times}${action.button === "left" ? "" : `${action.button} `}click${at}`;
    }
    case "swipe": case "drag": return `${action.kind}${at} → ${action.x2}, ${action.y2}`;
    case "scroll": return `scroll ${action.clicks > 0 ? "up" : "down"} by ${Math.abs(action.clicks)}${at && ` at${at}`}`;
    case "hscroll": return `scroll ${action.clicks > 0 ? "right" : "left"} by ${Math.abs(action.clicks)}${at && ` at${at}`}`;
    case "type": return `type “${action.text}”${action.enter ? " ⏎" : ""}${action.clear ? " (replacing)" : ""}`;
    case "key": return `key ${action.keys.join(" + ")}`;
    case "system_button": return `button ${action.button}`;
    case "open": return `open ${action.app}`;
    case "wait": return `wait ${action.seconds} s`;
    case "interact": return `ask the user: ${action.text}`;
    case "answer": return `answer “${action.text}”`;
    case "terminate": return `end: ${action.status}`;
    default: return `${action.kind.replace("_", " ")}${at}`;
  }
}

// The typed action of a step; null if the reply had none.
export function actionOf(step) {
  try {
    return step.action === null ? null : JSON.parse(step.action);
  } catch {
    return null;
  }
}
