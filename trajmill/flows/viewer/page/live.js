// The attempts that run right now; the page follows them until the reader leaves it.

import { part, request } from "./api.js";
import { h, replace } from "./dom.js";
import { badge, seconds, whole } from "./words.js";

const SECONDS_BETWEEN = 2;
const IDLE = "idle";

export async function liveView() {
  const node = h("section", { class: "page", "aria-live": "off" });
  const draw = (runs) => replace(node, runs.length ? runs.map(section) : h("p", { class: "soft" }, "No rollout is running on this machine."));
  draw(await request("/api/live"));
  const follow = () => setTimeout(async () => {
    if (!node.isConnected) return;
    if (!document.hidden) await request("/api/live").then(draw, () => {});
    follow();
  }, SECONDS_BETWEEN * 1000);
  return { node, title: "Live", ready: follow };
}

function section({ run_id, workers, slots }) {
  const busy = slots.filter(({ state }) => state !== IDLE);
  return h("article", { class: "run" }, h("h2", {}, run_id),
    h("p", { class: "soft" }, `${whole(busy.length)} of ${whole(slots.length)} slots of ${whole(workers)} ${workers > 1 ? "workers" : "worker"} are busy`),
    h("div", { class: "slots" }, busy.map((slot) => cell(run_id, slot))));
}

function cell(run, slot) {
  const image = slot.screen_id ? h("img", { src: `/api/live/${part(run)}/${part(slot.screen_id)}`, alt: "", onerror: (event) => event.target.remove() }) : null;
  return h("div", { class: "slot" }, image,
    h("p", {}, slot.instruction || "–"),
    h("p", { class: "soft" }, `step ${slot.step}`, slot.did ? `: ${slot.did}` : ""),
    h("p", {}, badge(`${slot.state} for ${seconds(slot.seconds)}`, "", slot.seconds > 60 ? "warn" : "flat")));
}
