// Small charts as SVG.

import { h, s } from "./dom.js";
import { hundredths, percent } from "./words.js";

const WIDTH = 640, HEIGHT = 220, LEFT = 40, RIGHT = 184, TOP = 10, BOTTOM = 26, GAP = 15;

// How values are written: at the axis, and at a point.
export const SHARES = { axis: (share) => `${share * 100}`, point: percent };
export const COEFFICIENTS = { axis: hundredths, point: hundredths };

// Lines of values in [0, 1] over rounds: [{name, points: [{round, share, low, high}]}].
export function shareChart(lines, label, written = SHARES) {
  const shown = lines.filter((line) => line.points.length);
  const rounds = [...new Set(shown.flatMap((line) => line.points.map((point) => point.round)))].sort((a, b) => a - b);
  if (!rounds.length) return h("p", { class: "soft" }, "nothing measured yet");
  const span = Math.max(rounds.at(-1) - rounds[0], 1);
  const x = (round) => LEFT + ((round - rounds[0]) / span) * (WIDTH - LEFT - RIGHT);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  return s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    grid(rounds, x, y, written), shown.map((line, place) => band(line, place, x, y)),
    shown.map((line, place) => curve(line, place, x, y, written)), endLabels(shown, y, written));
}

function grid(rounds, x, y, written) {
  const every = Math.max(1, Math.ceil(rounds.length / 12));
  return [
    [0, 0.25, 0.5, 0.75, 1].map((share) => [
      s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }),
      s("text", { class: "axis", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, written.axis(share)),
    ]),
    rounds.filter((_, place) => place % every === 0).map((round) =>
      s("text", { class: "axis", x: x(round), y: HEIGHT - 6, "text-anchor": "middle" }, `${round}`)),
  ];
}

const points = (list) => list.map(([left, top]) => `${left.toFixed(1)},${top.toFixed(1)}`).join(" ");

function band(line, place, x, y) {
  const measured = line.points.filter((point) => point.low !== undefined);
  const upper = measured.map((point) => [x(point.round), y(point.high)]);
  const lower = measured.map((point) => [x(point.round), y(point.low)]).reverse();
  return s("polygon", { class: `band series-${place}`, points: points([...upper, ...lower]) });
}

function curve(line, place, x, y, written) {
  return [
    s("polyline", { class: `line series-${place}`, points: points(line.points.map((point) => [x(point.round), y(point.share)])) }),
    line.points.map((point) => s("circle", { class: `dot series-${place}`, cx: x(point.round), cy: y(point.share), r: 3 },
      s("title", {}, `${line.name}, round ${point.round}: ${written.point(point.share)}`))),
  ];
}

function endLabels(lines, y, written) {
  const ends = lines.map((line, place) => ({ place, line, at: y(line.points.at(-1).share) })).sort((a, b) => a.at - b.at);
  ends.forEach((end, number) => {
    if (number) end.at = Math.max(end.at, ends[number - 1].at + GAP);
  });
  const low = Math.max(0, (ends.at(-1)?.at ?? 0) - (HEIGHT - BOTTOM + 4));
  return ends.map(({ place, line, at }) => s("text", { class: `label series-${place}`, x: WIDTH - RIGHT + 10, y: at - low + 4 },
    `${written.point(line.points.at(-1).share)} ${line.name}`));
}
