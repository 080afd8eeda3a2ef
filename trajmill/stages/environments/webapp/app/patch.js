// Brings the document in line with a description of the screen, touching only what differs: what has the focus, the
// caret and the scroll position keeps them.
"use strict";

const pressOf = new WeakMap();
const frameOf = new WeakMap();

/** Makes `parent` hold exactly the described children. */
function patchChildren(parent, children) {
  children.forEach((wanted, index) => {
    const held = parent.childNodes[index];
    if (typeof wanted === "string") patchText(parent, held, wanted);
    else if (held && fits(held, wanted)) patchElement(held, wanted);
    else {
      const made = document.createElement(wanted.tag);
      patchElement(made, wanted);
      if (held) held.replaceWith(made);
      else parent.append(made);
    }
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}

function patchText(parent, held, text) {
  if (held && held.nodeType === Node.TEXT_NODE) {
    if (held.data !== text) held.data = text;
  } else if (held) held.replaceWith(document.createTextNode(text));
  else parent.append(document.createTextNode(text));
}

const fits = (held, wanted) =>
  held.nodeType === Node.ELEMENT_NODE && held.localName === wanted.tag &&
  held.id === (wanted.attributes.id ?? "") && frameOf.get(held) === wanted.frame;

function patchElement(held, wanted) {
  const attributes = { ...wanted.attributes, ...(wanted.look.trim() ? { class: wanted.look.trim() } : {}) };
  for (const name of held.getAttributeNames())
    if (!isOwn(attributes, name) && name !== "style") held.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes))
    if (held.getAttribute(name) !== value) held.setAttribute(name, value);
  if (wanted.accent) paintWith(held, wanted.accent);
  if (wanted.press) pressOf.set(held, wanted.press);
  else pressOf.delete(held);
  if (wanted.frame) frameOf.set(held, wanted.frame);
  patchChildren(held, wanted.children);
  if (wanted.tag === "input" && held.value !== wanted.held) held.value = wanted.held;
}

function paintWith(held, color) {
  const part = (at) => parseInt(color.slice(at, at + 2), 16);
  const light = 299 * part(1) + 587 * part(3) + 114 * part(5) > 150000;
  held.style.setProperty("--accent", color);
  held.style.setProperty("--on-accent", light ? "#14161a" : "#ffffff");
}

/** Remembers where each body stands before it may be replaced. */
function rememberOffsets(root) {
  for (const body of root.querySelectorAll(".body")) frameOf.get(body).offset = body.scrollTop;
}

/** Puts each body where it was left. */
function restoreOffsets(root) {
  for (const body of root.querySelectorAll(".body")) body.scrollTop = frameOf.get(body).offset;
}
