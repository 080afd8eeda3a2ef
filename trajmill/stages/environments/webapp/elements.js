// Reads the compiled app's screen as an accessibility tree: what lies on top, in reading order, the title first.
// Returns { app, rows }, rows of [role, text, left, top, right, bottom, states, value, id, visible] in CSS pixels.
// Runs once the page has drawn, after `still` frames in which nothing has scrolled.
async (still) => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const device = document.getElementById("device");
  const offsets = () => [...device.querySelectorAll(".body")].map((body) => body.scrollTop).join();
  await frame();
  for (let before = offsets(), left = still; left > 0; ) {
    await frame();
    const now = offsets();
    left = now === before ? left - 1 : still;
    before = now;
  }
  const meet = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });
  const tall = (box) => Math.max(0, box.bottom - box.top);
  const screen = device.getBoundingClientRect();
  const statesOf = (node) => {
    const { dataset } = node, states = [];
    if (node.hasAttribute("aria-disabled")) states.push("disabled");
    if ("press" in dataset) states.push("clickable");
    if (node.getAttribute("aria-checked") === "true") states.push("checked");
    if ("hold" in dataset) states.push("long_clickable");
    if (node.localName === "input") states.push("editable");
    if (node === document.activeElement) states.push("focused");
    if (dataset.role === "heading" && node.matches(".title")) states.push("title");
    if (dataset.role === "list") {
      if (node.scrollTop + node.clientHeight < node.scrollHeight - 1) states.push("scrollable_down");
      if (node.scrollTop > 1) states.push("scrollable_up");
    }
    return states;
  };
  const read = (node) => {
    const body = node.parentElement.closest("[data-role=list]");
    const whole = node.getBoundingClientRect();
    const clip = body ? meet(screen, body.getBoundingClientRect()) : screen;
    const box = meet(whole, clip), states = statesOf(node);
    // Half of it is enough to be read and pressed.
    const visible = tall(box) > 0 && tall(box) >= Math.min(tall(whole), tall(clip)) / 2;
    const value = node.localName === "input" ? node.value : node.dataset.value ?? "";
    const { role, text, elementId = "" } = node.dataset;
    return [role, text.replaceAll("\n", " "), box.left - screen.left, box.top - screen.top, box.right - screen.left,
      box.bottom - screen.top, states, value, elementId, visible];
  };
  const rows = [...device.querySelectorAll("[data-role]")]
    .filter((node) => !node.closest("[inert]"))
    .map(read)
    .filter(([role, , , , , , states]) => role !== "list" || states.length);
  const place = ([role, , , , , , states]) => (states.includes("title") ? 0 : role === "menu_item" ? 2 : 1);
  return { app: window.trajmill.state().foreground, rows: rows.sort((a, b) => place(a) - place(b)) };
}
