// The value of the first input that matches a selector; null if there is none.
(selector) => {
  const found = document.querySelector(selector);
  if (!found) return null;
  return found.type === "checkbox" || found.type === "radio" ? String(found.checked) : String(found.value ?? "");
}
