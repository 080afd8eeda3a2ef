// `$name` and `{field}` in the texts and values of an app, and values as the screen shows them.
"use strict";

const NAME = /\$([A-Za-z_][\p{L}\p{N}_]*)/gu;
const FIELD = /\{([A-Za-z_][\p{L}\p{N}_]*)\}/gu;

const isOwn = (record, key) => Object.prototype.hasOwnProperty.call(record, key);

/** A value as the screen shows it; true and false are `on` and `off`. */
const shown = (value) => (typeof value === "boolean" ? (value ? "on" : "off") : String(value));

/** Equality as app files mean it: true is 1 and false is 0, but no text is a number. */
function same(one, other) {
  const plain = (value) => (typeof value === "boolean" ? Number(value) : value);
  return plain(one) === plain(other);
}

/** Whether a text is nothing but one name; returns that name. */
function whole(pattern, value) {
  const found = [...value.matchAll(pattern)];
  return found.length === 1 && found[0][0] === value ? found[0][1] : null;
}

/** A value with its `$name`s (and `{field}`s of an item) replaced; one that is a single name keeps its type. */
function bind(value, values, item = null) {
  if (typeof value !== "string") return value;
  let text = value;
  if (item !== null && text.includes("{")) {
    const field = whole(FIELD, text);
    if (field !== null) return item[field];
    text = text.replace(FIELD, (_, name) => shown(item[name]));
  }
  if (!text.includes("$")) return text;
  const name = whole(NAME, text);
  if (name !== null) return values.get(name);
  return text.replace(NAME, (_, each) => shown(values.get(each)));
}

const bindText = (text, values, item = null) => shown(bind(text, values, item));

const bindRecord = (record, values, item = null) =>
  Object.fromEntries(Object.entries(record).map(([field, value]) => [field, bind(value, values, item)]));
