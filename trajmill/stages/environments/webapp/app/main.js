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

/** What a press on an element means; null where nothing reacts. */
function targetOf(element) {
  for (let at = element; at instanceof Element; at = at.parentElement) if (pressOf.has(at)) return pressOf.get(at);
  return null;
}

function press(event) {
  const target = targetOf(event.target);
  if (target?.act === "slide") return;
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

function hold(event) {
  event.preventDefault();
  if (device.onPhone) return;
  device.hold(targetOf(event.target));
  draw();
}

/** Ends a movement that began on `start`; returns whether it has moved a slider. */
function drag(start, { clientX, clientY }) {
  const moved = device.drag(start, targetOf(document.elementFromPoint(clientX, clientY)));
  if (moved) draw();
  return moved;
}

let grabbed = null;
function mouse(event) {
  // Focus follows the device's state alone.
  if (event.type === "mousedown") event.preventDefault();
  if (event.type === "mousedown" && event.button === 0) grabbed = targetOf(event.target);
  else if (event.type === "mouseup" && !device.onPhone) drag(grabbed, event);
}

let touched = null;
function touch(event) {
  const { clientX, clientY } = event.changedTouches[0];
  if (event.type === "touchstart") touched = { clientX, clientY, since: event.timeStamp, target: targetOf(event.target) };
  else if (touched !== null && !drag(touched.target, event.changedTouches[0])) {
    const right = Math.abs(clientX - touched.clientX), down = Math.abs(clientY - touched.clientY);
    // A finger that stays is no press.
    if (event.timeStamp - touched.since >= LONG_PRESS_MS) {
      if (event.cancelable) event.preventDefault();
      if (down < SHORTEST_SWIPE && right < SHORTEST_SWIPE) device.hold(touched.target);
      draw();
    }
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
document.addEventListener("contextmenu", hold);
document.addEventListener("mousedown", mouse);
document.addEventListener("mouseup", mouse);
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
