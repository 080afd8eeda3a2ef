// Runs before a page's own scripts. It records which elements listen for presses and for right clicks, hides the blinking
// caret, and draws the list of a <select> into the page, since the browser's own list cannot be pressed by pixel.
(() => {
  const calm = new CSSStyleSheet();
  calm.replaceSync("* { caret-color: transparent !important; scroll-behavior: auto !important; }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, calm];
  const listening = new WeakSet(), menus = new WeakSet();
  Object.defineProperty(window, "__listensForPresses", { value: listening });
  Object.defineProperty(window, "__opensMenus", { value: menus });
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (["click", "mousedown", "mouseup", "pointerdown"].includes(kind) && this instanceof Element) listening.add(this);
    if (kind === "contextmenu" && this instanceof Element) menus.add(this);
    return listen.call(this, kind, ...rest);
  };
  const choose = (select, index, list) => {
    list.remove();
    if (select.selectedIndex === index) return;
    select.selectedIndex = index;
    select.dispatchEvent(new Event("input", { bubbles: true }));
    select.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const drawList = (select) => {
    const box = select.getBoundingClientRect(), list = document.createElement("div");
    const below = box.bottom + 60 < window.innerHeight;
    Object.assign(list.style, { position: "fixed", left: `${box.left}px`, minWidth: `${box.width}px`, zIndex: 100000,
      background: "#fff", border: "1px solid #888", font: getComputedStyle(select).font, maxHeight: "120px",
      overflowY: "auto", [below ? "top" : "bottom"]: `${below ? box.bottom : window.innerHeight - box.top}px` });
    [...select.options].forEach((option, index) => {
      const row = document.createElement("div");
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(option.selected));
      row.ariaDisabled = String(option.matches(":disabled"));
      row.hidden = option.hidden;
      row.textContent = option.text;
      row.style.padding = "1px 4px";
      if (!option.matches(":disabled")) listen.call(row, "mousedown", (event) => { event.preventDefault(); event.stopPropagation(); choose(select, index, list); });
      list.append(row);
    });
    (select.closest("dialog[open], [popover]") || document.body).append(list);
    return list;
  };
  let shown = null;
  listen.call(window, "mousedown", (event) => {
    const reopened = shown && shown.owner === event.target;
    if (shown && !shown.list.contains(event.target)) { shown.list.remove(); shown = null; }
    if (!(event.target instanceof HTMLSelectElement) || event.target.multiple || event.target.size > 1) return;
    event.preventDefault();
    if (!reopened) shown = { owner: event.target, list: drawList(event.target) };
  }, true);
})();
