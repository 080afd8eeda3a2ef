// Starts the device and hands it what the user does: presses, keys, text, swipes.
"use strict";

const WORLD = JSON.parse(document.getElementById("world").textContent);
const ROOT = document.getElementById("device");
const SHORTEST_SWIPE = 20;
const LONG_PRESS_MS = 500;

let device = null;

/** A fresh device; see `Device` for what `start` says. */
function reset(start) {
  device = new Device(WORLD, start);
  ROOT.replaceChildren();
  ROOT.style.setProperty("--scale", device.profile.scale);
  draw();
}

function draw() {
  rememberOffsets(ROOT);
  patchChildren(ROOT, [deviceScreen(device)]);
  restoreOffsets(ROOT);
  moveFocus();
}

/** Gives the browser's focus to the input that the device has focused; what it holds is selected to be replaced. */
function moveFocus() {
  const input = device.focus ? ROOT.querySelector(".input.focused input") : null;
  const held = document.activeElement;
  if (input === null) {
    if (held instanceof HTMLElement) held.blur();
    return;
  }
  if (held !== input) {
    input.focus({ preventScroll: true });
    input.scrollIntoView({ block: "nearest" });
  }
  if (device.replaces) input.select();
}

function press(event) {
  let target = null;
  for (let at = event.target; at instanceof Element && target === null; at = at.parentElement) target = pressOf.get(at) ?? null;
  // On a desktop icons open on a double click, and a double click on anything else is one press.
  const twice = !device.onPhone && event.detail > 1;
  const opens = target !== null && target.act === "open" && !device.onPhone;
  if (opens ? event.type === "click" : event.type === "dblclick" || twice) return;
  device.press(target);
  draw();
}

const KEY_ACTS = {
  Enter: () => device.enter(),
  Escape: () => device.escape(),
  BrowserBack: () => device.back(),
  Home: () => device.onPhone && device.leave(),
  Tab: () => {},
};

function key(event) {
  const { key: name, altKey, ctrlKey, metaKey, shiftKey } = event;
  const act = altKey && name === "ArrowLeft" ? KEY_ACTS.BrowserBack
    : altKey || ctrlKey || metaKey || shiftKey || !isOwn(KEY_ACTS, name) ? null : KEY_ACTS[name];
  if (act === null || (name === "Home" && !device.onPhone)) return;
  event.preventDefault();
  act();
  draw();
}

/** Scrolling a phone puts its keyboard away. */
function hideKeyboard() {
  if (!device.onPhone || !device.focus) return;
  device.focus = "";
  draw();
}

let touched = null;
function touch(event) {
  const { clientX, clientY } = event.changedTouches[0];
  if (event.type === "touchstart") touched = { clientX, clientY, since: event.timeStamp };
  else if (touched !== null) {
    const right = Math.abs(clientX - touched.clientX), down = Math.abs(clientY - touched.clientY);
    // A finger that stays is no press.
    if (event.timeStamp - touched.since >= LONG_PRESS_MS && event.cancelable) event.preventDefault();
    touched = null;
    if (down >= Math.max(right, SHORTEST_SWIPE)) hideKeyboard();
  }
}

document.addEventListener("click", press);
document.addEventListener("dblclick", press);
document.addEventListener("keydown", key);
document.addEventListener("wheel", hideKeyboard, { passive: true });
document.addEventListener("touchstart", touch, { passive: true });
document.addEventListener("touchend", touch, { passive: false });
document.addEventListener("contextmenu", (event) => event.preventDefault());
// Focus follows the device's state alone.
document.addEventListener("mousedown", (event) => event.preventDefault());
document.addEventListener("input", (event) => {
  device.typed(event.target.value);
  draw();
});

/** What a driver uses beside the events of the page. */
window.trajmill = {
  reset,
  state: () => device.state(),
  open(name) {
    device.open(name);
    draw();
  },
};

const asked = new URLSearchParams(location.hash.slice(1));
const wantedProfile = Number(asked.get("profile")) % WORLD.profiles.length || 0;
const wantedPlatform = ["phone", "desktop"].includes(asked.get("platform")) ? asked.get("platform") : WORLD.platform;
reset({ platform: wantedPlatform, profile: Math.abs(wantedProfile), setup: [], without: [], surprises: [] });
window.addEventListener("hashchange", () => location.reload());
