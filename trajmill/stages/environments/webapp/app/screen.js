// What is on the screen of a device: bars, page, menu, keyboard, and the dialog or message over them.
"use strict";

const KEYS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"];

/** The description of the whole screen. */
function deviceScreen(device) {
  const running = device.front;
  const layers = running ? appLayers(device, running) : [launcher(device)];
  layers.slice(0, -1).forEach((layer) => { layer.attributes.inert = ""; });
  const look = `${device.platform} ${device.profile.dark ? "dark" : "light"} ${running ? "in-app" : "at-launcher"}`;
  return box(look, ...layers);
}

function launcher(device) {
  const title = device.onPhone ? "Home screen" : "Desktop";
  const icons = device.profile.launcher[device.platform].map((name) => {
    const app = device.world.apps[name];
    const square = { ...words("square", app.symbol), accent: app.color };
    const attributes = named("icon", `launcher/${name}`, app.name);
    return pushButton("icon", attributes, { act: "open", value: name }, square, words("name", app.name));
  });
  return box("page", ...(device.onPhone ? [words("status", "9:41")] : [words("taskbar", "")]),
    titleOf("h1", "title", "launcher", title), scroller("launcher", device.launcher, icons, "icons"));
}

function appLayers(device, running) {
  const dialog = device.isDialog(running);
  const top = running.stack.at(-1), below = dialog ? running.stack.at(-2) : top;
  const layers = [pageLayer(device, running, below, !dialog)];
  if (dialog) layers.push(dialogLayer(device, running, top));
  if (running.popup) layers.push(popupLayer(running.popup));
  return layers;
}

const screenName = (running, frame) => `${running.app.app}.${frame.screen}`;
const titleOf = (tag, look, page, text) => node(tag, look, named("heading", `${page}/title`, text), text);

/** A body that scrolls by itself and stays where its frame of the back stack was left. */
function scroller(page, frame, rows, look = "") {
  return { ...node("div", `body ${look}`, named("list", `${page}/scroll`, ""), ...rows), frame };
}

function pageLayer(device, running, frame, isTop) {
  const page = screenName(running, frame), screen = running.app.screens[frame.screen];
  const menus = screen.widgets.filter((each) => each.kind === "menu" && isShown(each, running.store.values));
  const opened = isTop ? menus.find((menu) => menu.id === device.menu) : null;
  const body = scroller(page, frame, pageRows(device, running, page, screen.widgets));
  if (opened) body.attributes.inert = "";
  const bars = device.onPhone ? [words("status", "9:41"), appBar(device, running, page, screen, isTop)]
    : [appBar(device, running, page, screen, isTop), menuBar(page, menus, opened, running), taskbar()];
  const layer = box("page", ...bars, body, ...(isTop ? keyboard(device) : []));
  return { ...layer, accent: running.app.color };
}

function appBar(device, running, page, screen, isTop) {
  const parts = [titleOf("h1", "title", page, bindText(screen.title, running.store.values))];
  const depth = running.stack.length - (isTop ? 1 : 2);
  if (depth > 0) parts.push(pushButton("bar-button back", named("button", `${page}/back`, "Back"), { act: "back" }, "Back"));
  if (!device.onPhone) {
    const close = named("button", `${page}/close`, "Close");
    parts.push(pushButton("bar-button", close, { act: "home" }, "Close"));
  }
  return box("app-bar", ...parts);
}

function menuBar(page, menus, opened, running) {
  return box("menu-bar", ...menus.map((menu) => {
    const attributes = named("menu", `${page}/${menu.id}`, menu.text, { "aria-haspopup": "menu" });
    const button = pushButton(menu === opened ? "menu open" : "menu", attributes, { act: "menu", widget: menu }, menu.text);
    const items = menu === opened ? [menuItems(page, menu, running)] : [];
    return box("menu-place", button, ...items);
  }));
}

function menuItems(page, menu, running) {
  const values = running.store.values;
  const items = menu.items.filter((item) => isShown(item, values));
  const rows = items.map((item) => buttonRow(item, `${page}/${item.id}`, values, "menu_item", "menu-item"));
  return node("div", "menu-items", { role: "menu" }, ...rows);
}

function taskbar() {
  const home = named("button", "taskbar/desktop", "Show desktop");
  return box("taskbar", pushButton("show-desktop", home, { act: "home" }, "Show desktop"));
}

function dialogLayer(device, running, frame) {
  const page = screenName(running, frame), screen = running.app.screens[frame.screen];
  const title = bindText(screen.title, running.store.values);
  const head = [titleOf("h2", "title", page, title)];
  if (!device.onPhone) {
    const close = named("button", `${page}/close`, "Close");
    head.push(pushButton("bar-button", close, { act: "back" }, "Close"));
  }
  const body = scroller(page, frame, pageRows(device, running, page, screen.widgets));
  const keys = keyboard(device);
  const dialog = node("div", "dialog", dialogNamed(title), box("head", ...head), body);
  return { ...box(keys.length ? "layer with-keyboard" : "layer", dialog, ...keys), accent: running.app.color };
}

const dialogNamed = (title) => named("dialog", "", title, { aria: "dialog", "aria-modal": "true", "aria-label": title });

function popupLayer(popup) {
  const buttons = popup.buttons.map((text, index) =>
    pushButton(index ? "push plain" : "push primary", named("button", `popup/${index}`, text), { act: "dismiss" }, text));
  const text = node("p", "text", named("text", "popup/text", popup.text), popup.text);
  const head = box("head", titleOf("h2", "title", "popup", popup.title));
  return box("layer", node("div", "dialog message", dialogNamed(popup.title), head, text, ...buttons));
}

/** The keyboard of a phone while an input is focused; drawn alone: text comes by real key and input events. */
function keyboard(device) {
  if (!device.focus || !device.onPhone) return [];
  const row = (keys) => box("keys", ...keys.map((key) => words(key.length > 1 ? `key ${key}` : "key", key)));
  const rows = [...KEYS.map((letters) => row([...letters])), row(["123", "space", "Enter"])];
  return [node("div", "keyboard", named("keyboard", "keyboard", ""), ...rows)];
}
