"""Small web applications with a state API, a task list, a shop and a phone, and the servers that can be wrong about it.

`python -m tests.stages.environments.state_api.apps --port 8170` serves the tasks there, and the shop one port above.
"""

import argparse
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests import http_server
from tests.http_server import QuietHandler

_PAGE = """<!doctype html><html lang=en><title>%s</title>
<style>body { font: 16px sans-serif; margin: 16px } button, input { font: inherit; margin: 4px; padding: 6px 12px }
p { margin: 4px; display: flex; align-items: center; gap: 8px }</style><h1>%s</h1><div id="app"></div><script>
const sid = new URLSearchParams(location.search).get("sid"), app = document.getElementById("app");
const ask = (path, body) => fetch(`${path}?sid=${sid}`, body && { method: "POST", body: JSON.stringify(body) })
  .then((answer) => answer.json());
let state;
const newId = () => "n" + Math.random().toString(36).slice(2, 8);
const save = () => { draw(); return ask("/post", { action: "set_current", state }); };
const put = (tag, text, id, press) => { const made = document.createElement(tag); made.textContent = text; made.id = id;
  if (press) made.onclick = press; return made; };
const row = (...parts) => { const made = document.createElement("p"); made.append(...parts); app.append(made); };
const draw = () => { app.replaceChildren(); show(); };
%s
ask("/go").then(({ current_state }) => { state = { ...defaults, ...current_state }; save(); });
</script>"""
_TASK_LIST = """
const defaults = { tasks: [], archive: [], theme: "light" };
const show = () => {
  const text = document.createElement("input");
  text.id = "new"; text.placeholder = "New task";
  const add = () => { if (!text.value) return;
    state.tasks.push({ id: newId(), title: text.value, done: false, added: Date.now() }); save(); };
  row(text, put("button", "Add", "add", add));
  for (const task of state.tasks) row(
    put("button", task.done ? "Open" : "Done", "done-" + task.id, () => { task.done = !task.done; save(); }),
    put("button", "Delete", "delete-" + task.id, () => { state.tasks = state.tasks.filter((t) => t !== task);
      save(); }),
    put("span", task.title + (task.done ? ", done" : ""), "title-" + task.id));
};"""
_SHOP = """
const defaults = { cart: {}, orders: [], stock: { apple: 5, bread: 5, cheese: 5 } };
const show = () => {
  for (const name of Object.keys(state.stock)) row(
    put("button", "Buy " + name, "buy-" + name, () => { state.cart[name] = (state.cart[name] || 0) + 1; save(); }),
    put("button", "Return " + name, "return-" + name, () => { delete state.cart[name]; save(); }),
    put("span", (state.cart[name] || 0) + " in the cart", "count-" + name));
  row(put("button", "Order", "order", () => {
    state.orders.push({ id: newId(), items: state.cart }); state.cart = {}; save(); }),
    put("span", state.orders.length + " orders", "orders"));
};"""
_PHONE = """
const defaults = { quiet: false };
let page = "Home";
const go = (to) => put("button", to, "go-" + to.toLowerCase(), () => { page = to; draw(); });
const show = () => {
  row(put("h2", page, "now"), go("Home"), go("Sound"));
  if (page === "Sound") row(put("button", state.quiet ? "Is quiet" : "Is loud", "quiet", () => {
    state.quiet = !state.quiet; save(); }));
};"""
_SCRIPTS = {"Tasks": _TASK_LIST, "Shop": _SHOP, "Phone": _PHONE}
TASK_LIST, SHOP, PHONE = (_PAGE % (name, name, script) for name, script in _SCRIPTS.items())
Sessions = dict[str, dict[str, Any]]


class StateApi(QuietHandler):
    """Speaks the protocol for one page; a subclass may be wrong about it."""

    page = TASK_LIST
    url: str
    sessions: ClassVar[Sessions] = {}

    def reply(self) -> None:
        parts = urlsplit(self.path)
        sid = parse_qs(parts.query).get("sid", [""])[0]
        if parts.path in ("/go", "/post"):
            self.answer(self.api(parts.path, sid), Content_Type="application/json")
        elif parts.path == "/":
            self.answer(self.page.encode(), Content_Type="text/html; charset=utf-8")
        else:
            self.answer(status=404)

    def api(self, path: str, sid: str) -> bytes:
        if path == "/post":
            self.change(sid, json.loads(self.body))
            return b'{"success": true}'
        held = self.sessions.get(sid, {})
        initial, current = held.get("initial"), held.get("current")
        return json.dumps({"initial_state": initial, "current_state": current, "state_diff": {}}).encode()

    def change(self, sid: str, order: dict[str, Any]) -> None:
        with _LOCK:
            held = self.sessions.setdefault(sid, {})
            if order["action"] == "reset":
                held["current"] = held["initial"]
            else:
                held["current"] = order["state"]
                held["initial"] = order["state"] if order["action"] == "set" else held.get("initial", order["state"])


_LOCK = threading.Lock()


@contextmanager
def serving(page: str = TASK_LIST, kind: type[StateApi] = StateApi, port: int = 0) -> Iterator[type[StateApi]]:
    """Serve an application; yields its handler, whose `url` has the address."""
    handler: type[StateApi] = type("Served", (kind,), {"page": page, "sessions": {}})
    with http_server.serving(handler, port) as handler.url:
        yield handler


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8170)
    port = options.parse_args().port
    with ExitStack() as opened:
        for page, at in ((TASK_LIST, port), (SHOP, port + 1)):
            print(opened.enter_context(serving(page, port=at)).url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
