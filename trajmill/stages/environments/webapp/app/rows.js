// Widgets to descriptions of elements: what one widget shows, and what a press on it means.
//
// A description is { tag, look, attributes, press, children }. Every text of an app ends up in a text node or in an
// attribute's value, never in markup.
"use strict";

const node = (tag, look, attributes = {}, ...children) => ({ tag, look, attributes, press: null, children });
const box = (look, ...children) => node("div", look, {}, ...children);
const words = (look, text) => node("span", look, {}, text);

/** Attributes of an element of the accessibility tree, by its role there and by its ARIA role. */
function named(role, id, text, { value = "", aria = "", ...more } = {}) {
  const attributes = { "data-role": role, "data-text": text, ...more };
  if (id) Object.assign(attributes, { id, "data-element-id": id });
  if (value) attributes["data-value"] = value;
  if (aria) attributes.role = aria;
  return attributes;
}

/** Makes a description react to presses; a disabled one says so and does not. */
function pressed(description, target, disabled = false) {
  const hold = target.widget?.hold ? { "data-hold": "" } : {};
  const states = disabled ? { "aria-disabled": "true" } : target.act === "slide" ? {} : { "data-press": target.act, ...hold };
  return { ...description, attributes: { ...description.attributes, ...states }, press: disabled ? null : target };
}

const pushButton = (look, attributes, target, ...children) =>
  pressed(node("button", look, { type: "button", ...attributes }, ...children), target);

/** The rows of a page's body from top to bottom. */
function pageRows(device, running, page, widgets) {
  const rows = [];
  let sponsored = running.sponsored;
  for (const widget of widgets) {
    if (!isShown(widget, running.store.values)) continue;
    rows.push(...widgetRows(device, running, page, widget, sponsored));
    if (widget.kind === "list") sponsored = false;
  }
  return rows;
}

const isShown = (widget, values) =>
  Object.entries(widget.show_if).every(([name, wanted]) => same(values.get(name), wanted));

function widgetRows(device, running, page, widget, sponsored) {
  const values = running.store.values;
  const id = `${page}/${widget.id}`;
  switch (widget.kind) {
    case "text":
    case "heading":
    case "value":
      return [textRow(widget, widget.id ? id : "", bindText(widget.text, values))];
    case "button":
      return [buttonRow(widget, id, values)];
    case "list":
      return listRows(device, running, page, widget, sponsored);
    case "choice":
    case "slider":
      return [node("p", "label", named("text", "", widget.label), widget.label), choiceRow(device, widget, id, values)];
    case "switch":
    case "checkbox":
      return [toggleRow(widget, id, values)];
    case "stepper":
      return [stepperRow(widget, id, values)];
    case "field":
    case "search":
      return [inputRow(device, widget, id, values)];
    default:
      return [];
  }
}

const textRow = ({ kind }, id, text) =>
  node(kind === "heading" ? "h2" : "p", kind, named(kind, id, text), text);

function buttonRow(widget, id, values, role = "button", look = `push ${widget.style}`) {
  const enabled = !isDisabled(widget, values);
  const text = bindText(widget.text, values);
  const attributes = named(role, id, text, { type: "button", aria: role === "menu_item" ? "menuitem" : "" });
  return pressed(node("button", look, attributes, text), { act: "press", widget }, !enabled);
}

function listRows(device, running, page, widget, sponsored) {
  const values = running.store.values;
  const passive = !(widget.variable || widget.do.length || widget.to);
  const items = device.itemsOf(running, widget);
  if (!items.length) {
    const none = "Nothing here yet";
    return [node("p", "text none", named("text", `${page}/${widget.id}`, none), none)];
  }
  return items.flatMap((item, index) => {
    const name = isOwn(item, "name") ? item.name : index;
    const id = `${page}/${widget.id}/${typeof name === "boolean" ? (name ? "True" : "False") : name}`;
    const text = bindText(widget.text, values, item), note = bindText(widget.note, values, item);
    const target = { act: "pick", widget, value: isOwn(item, "name") ? item.name : "" };
    const row = passive
      ? node("p", "value", named("value", id, text, { value: note }), text, words("note", note))
      : listItem(id, text, note, target);
    return sponsored && index === 1 ? [listItem("popup/ad", OFFER.title, "Sponsored", { act: "offer" }), row] : [row];
  });
}

const listItem = (id, text, note, target) =>
  pushButton(note ? "item noted" : "item", named("list_item", id, text, { value: note }), target,
    words("name", text), ...(note ? [words("note", note)] : []));

function choiceRow(device, widget, id, values) {
  const longest = Math.max(...widget.options.map((option) => [...shown(option)].length));
  const room = device.onPhone ? 7 : 21;
  const columns = longest > 2 * room ? "one" : longest > room || widget.options.length === 4 ? "two" : "three";
  const slider = widget.kind === "slider", role = slider ? "slider_mark" : "radio", act = slider ? "slide" : "choose";
  const options = widget.options.map((option) => {
    const checked = String(same(values.get(widget.variable), option));
    const more = { value: widget.label, aria: "radio", "aria-checked": checked };
    const attributes = named(role, `${id}/${shown(option)}`, shown(option), more);
    return pushButton(slider ? "mark" : "choice", attributes, { act, widget, value: option },
      words("ring", ""), words("name", shown(option)));
  });
  return node("div", slider ? "slider" : `options ${columns}`, { role: "radiogroup", "aria-label": widget.label }, ...options);
}

function toggleRow(widget, id, values) {
  const text = bindText(widget.text, values);
  const checked = String(Boolean(values.get(widget.variable)));
  const attributes = named(widget.kind, id, text, { aria: widget.kind, "aria-checked": checked });
  const mark = words(widget.kind === "switch" ? "track" : "tick", "");
  return pushButton(`toggle ${widget.kind}`, attributes, { act: "flip", widget }, mark, words("name", text));
}

function stepperRow(widget, id, values) {
  const number = values.get(widget.variable);
  const button = ([sign, value, limit]) => {
    const attributes = named("stepper_button", `${id}/${sign}`, sign, { value: widget.text, type: "button" });
    const made = node("button", "step", attributes, sign === "-" ? "\u2212" : sign);
    return pressed(made, { act: "step", widget, value }, same(number, limit));
  };
  const label = named("text", id, widget.text, { value: shown(number) });
  return box("stepper", node("span", "name", label, widget.text, words("count", shown(number))),
    ...[["-", -1, widget.minimum], ["+", 1, widget.maximum]].map(button));
}

function inputRow(device, widget, id, values) {
  const held = shown(values.get(widget.variable));
  const role = widget.kind === "field" ? "text_field" : "search_field";
  // The device has its own keyboard, and the browser's memory of what was typed would differ from run to run.
  const plain = { type: "text", inputmode: "none", autocomplete: "off", spellcheck: "false", tabindex: "-1" };
  const attributes = named(role, id, widget.hint, { ...plain, "aria-label": widget.hint });
  const input = pressed({ ...node("input", "", attributes), held }, { act: "focus", widget });
  const focused = device.focus === widget.id ? " focused" : "";
  return box(`input ${widget.kind}${held ? " filled" : ""}${focused}`, words("hint", widget.hint), input);
}
