// Reads the visible elements of one frame as an accessibility tree, in reading order; frames within are read apart.
// Returns rows of [role, text, left, top, right, bottom, states, value, id] in CSS pixels of the frame.
() => {
  const width = window.innerWidth, height = window.innerHeight;
  const listening = window.__listensForPresses || new WeakSet();
  const menus = window.__opensMenus || new WeakSet();
  const squeeze = (text) => (text || "").replace(/\s+/g, " ").trim().slice(0, 200);
  const inputRoles = { checkbox: "checkbox", radio: "radio", range: "slider", submit: "button", button: "button",
                       image: "button", color: "button", file: "button", reset: "button" };
  const INPUT_TYPES = ["date", "time", "datetime-local", "month", "week", "number", "email", "tel", "url", "search"];
  const tagRoles = { A: "link", BUTTON: "button", TEXTAREA: "text_field", SELECT: "combo_box", OPTION: "list_item",
                     LI: "list_item", IMG: "image", H1: "heading", H2: "heading", H3: "heading", H4: "heading" };
  const ownText = (node) =>
    squeeze([...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data).join(" "));
  const roleOf = (node) => {
    const named = node.getAttribute("role");
    if (named && named !== "presentation" && named !== "none") return { option: "list_item", treeitem: "list_item", textbox: "text_field", spinbutton: "text_field", menuitem: "menu_item" }[named] || named;
    if (node.tagName === "INPUT") return inputRoles[node.type] || "text_field";
    if (node.namespaceURI === "http://www.w3.org/2000/svg") return node.tagName === "text" ? "text" : "image";
    return tagRoles[node.tagName] || "text";
  };
  const besides = (node) => {
    for (let before = node.previousElementSibling; before; before = before.previousElementSibling) {
      const text = squeeze(before.innerText);
      if (text) return text;
    }
    return "";
  };
  const appearance = (node) => {
    if (node.namespaceURI !== "http://www.w3.org/2000/svg") return "";
    const color = node.getAttribute("fill") || node.style.fill || "";
    return squeeze(`${color} ${node.tagName === "rect" ? "square" : node.tagName}`);
  };
  // The words of a label without those of the controls in it, such as the options of a choice.
  const labelText = (label) => {
    if (!label.querySelector("select, textarea, button")) return squeeze(label.innerText);
    const words = (node) => node.nodeType === 3 ? node.data
      : ["SELECT", "TEXTAREA", "BUTTON"].includes(node.tagName) ? " " : [...node.childNodes].map(words).join(" ");
    return squeeze(words(label));
  };
  const labelOf = (node, role) => {
    const said = (node.getAttribute("aria-labelledby") || "").split(/\s+/).map((id) => id && node.getRootNode().getElementById(id)).filter(Boolean);
    if (said.length) return squeeze(said.map((each) => each.innerText).join(" "));
    if (node.getAttribute("aria-label")) return squeeze(node.getAttribute("aria-label"));
    if (node.tagName === "INPUT" || node.tagName === "TEXTAREA" || node.tagName === "SELECT") {
      if (role === "button") return squeeze(node.value || node.alt);
      const label = node.labels && node.labels.length ? labelText(node.labels[0]) : "";
      return label || squeeze(node.placeholder) || besides(node) || squeeze(node.name || node.id);
    }
    if (role === "link" || role === "button" || role === "list_item" || role === "tab")
      return squeeze(node.innerText || node.title || node.getAttribute("alt") || node.id);
    return ownText(node) || squeeze(node.getAttribute("alt") || node.getAttribute("title")) || appearance(node);
  };
  const pressable = (node, style) =>
    ["A", "BUTTON", "INPUT", "TEXTAREA", "SELECT", "OPTION", "SUMMARY"].includes(node.tagName) || node.onclick !== null ||
    listening.has(node) || style.cursor === "pointer" || node.getAttribute("role") === "option";
  // What a press at five points of an element reaches: it counts as reached where that is in it, around it or its label.
  const POINTS = [[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]];
  const belongs = (hit, node) => node.contains(hit) || hit.contains(node) || (hit.closest("label") || {}).control === node;
  const reachable = (node, style, box) => {
    if (style.pointerEvents === "none") return true;
    const root = node.getRootNode();
    return POINTS.some((at) => {
      const hit = root.elementFromPoint(...box.point(at));
      return !hit || belongs(hit, node);
    });
  };
  const seeThrough = (node) => {
    const style = getComputedStyle(node);
    if (Number(style.opacity) === 0) return true;
    return !["IMG", "VIDEO", "CANVAS", "IFRAME", "INPUT", "TEXTAREA", "SELECT"].includes(node.tagName) &&
      ["transparent", "rgba(0, 0, 0, 0)"].includes(style.backgroundColor) && style.backgroundImage === "none" &&
      style.backdropFilter === "none";
  };
  // The element over a text that can be read through it, such as the link that is stretched over a card; else null.
  const overlayOf = (node, box) => {
    for (const at of POINTS) {
      const above = [];
      for (const hit of node.getRootNode().elementsFromPoint(...box.point(at))) {
        if (belongs(hit, node)) return above[0] || null;
        if (!seeThrough(hit)) break;
        above.push(hit);
      }
    }
    return null;
  };
  // A control that is drawn by something else, such as a styled checkbox, is itself transparent and takes the press.
  const isDrawnByOthers = (node) => node.tagName === "SELECT" || (node.tagName === "INPUT" && ["checkbox", "radio", "range", "file"].includes(node.type));
  const scrolls = (node, style) => {
    const states = [], isPage = node === document.scrollingElement;
    const room = node.scrollHeight - node.clientHeight;
    if (room <= 2 || (isPage ? style.overflowY === "hidden" : !["auto", "scroll"].includes(style.overflowY))) return states;
    if (node.scrollTop < room - 2) states.push("scrollable_down");
    if (node.scrollTop > 2) states.push("scrollable_up");
    return states;
  };
  const childrenOf = (node) => {
    if (node.shadowRoot) return node.shadowRoot.children;
    const assigned = node.tagName === "SLOT" ? node.assignedElements() : [];
    return assigned.length ? assigned : node.children;
  };
  const opensMenu = (node) => node !== document.body && (menus.has(node) || node.oncontextmenu);
  const rows = [];
  const visit = (node, covered, held) => {
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden" || (style.display !== "contents" && !node.checkVisibility())) return;
    if (Number(style.opacity) === 0 && (!isDrawnByOthers(node) || style.pointerEvents === "none")) return;
    const whole = node.getBoundingClientRect();
    const left = Math.max(0, whole.left), top = Math.max(0, whole.top);
    const right = Math.min(width, whole.right), bottom = Math.min(height, whole.bottom);
    const box = { point: ([across, down]) => [left + (right - left) * across, top + (bottom - top) * down] };
    let inside = covered;
    const holds = held || opensMenu(node);
    if (right - left >= 2 && bottom - top >= 2 && node !== document.body) {
      const role = roleOf(node), can = pressable(node, style), text = labelOf(node, role);
      const isInput = ["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName);
      const ownsPresses = can && (isInput || listening.has(node) || node.onclick !== null || !covered);
      const drawn = node.namespaceURI === "http://www.w3.org/2000/svg" && node.tagName !== "svg" && node.tagName !== "g";
      const scrollable = scrolls(node, style);
      if (scrollable.length && role !== "text_field") rows.push(["list", "", left, top, right, bottom, scrollable, "", node.id || ""]);
      if ((ownsPresses && (isInput || node.children.length === 0 || text)) || (!covered && (ownText(node) || drawn))) {
        const overlay = reachable(node, style, box) ? node : isInput ? null : overlayOf(node, box);
        if (overlay === null) return;
        const states = role === "text_field" ? scrollable : [];
        if (overlay === node ? can || drawn : pressable(overlay, getComputedStyle(overlay))) states.push("clickable");
        if (holds && (states.includes("clickable") || opensMenu(node))) states.push("long_clickable");
        if (node.checked || ["aria-checked", "aria-pressed"].some((name) => node.getAttribute(name) === "true")) states.push("checked");
        if (node.selected || node.getAttribute("aria-selected") === "true") states.push("selected");
        if (node === document.activeElement) states.push("focused");
        if (node.disabled || node.ariaDisabled === "true") states.push("disabled");
        if (role === "text_field") states.push("editable");
        if (node.type === "password") states.push("password");
        if (role === "text_field" && INPUT_TYPES.includes(node.type)) {
          const given = ["min", "max", "step"].filter((limit) => node[limit] && (node.type !== "number" || isFinite(node[limit])));
          states.push(node.type, ...given.map((limit) => `${limit}:${node[limit]}`));
        }
        const chosen = node.tagName === "SELECT" && node.selectedOptions[0];
        const value = chosen ? squeeze(chosen.text) : ["text_field", "combo_box", "slider"].includes(role) ? squeeze(node.value) : "";
        rows.push([role, text, left, top, right, bottom, states, value, node.id || ""]);
        inside = covered || (can && !isInput && (role === "link" || role === "button" || role === "list_item"));
      }
    }
    if (node.tagName === "SELECT") return;
    for (const child of childrenOf(node)) visit(child, inside, holds);
  };
  if (!document.body) return rows;
  const page = document.scrollingElement, pageScrolls = page ? scrolls(page, getComputedStyle(page)) : [];
  if (pageScrolls.length) rows.push(["list", "", 0, 0, width, height, pageScrolls, "", ""]);
  visit(document.body, false, false);
  return rows;
}
