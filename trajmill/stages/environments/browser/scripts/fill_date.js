// Fills the date or time field that has the focus; returns whether there is one.
(text) => {
  let field = document.activeElement;
  while (field && field.shadowRoot) field = field.shadowRoot.activeElement;
  const types = ["date", "time", "month", "week", "datetime-local"];
  if (!field || field.tagName !== "INPUT" || !types.includes(field.type)) return false;
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, text);
  for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true, composed: true }));
  return true;
}
