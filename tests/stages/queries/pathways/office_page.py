"""A small web office on loopback, with menus, a submenu, tabs, a dialog and an action that must not be taken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PAGE = """<!doctype html><meta charset="utf-8"><title>Office</title>
<style>body { font: 16px sans-serif } [hidden] { display: none !important } button, a, [role] { margin: 4px }
#layer { position: fixed; inset: 0; background: #eee } .menu { background: #ddd; width: 220px }
.menu div { padding: 4px; cursor: pointer }</style>
<button id="file" onclick="toggle('file-menu')">File</button>
<button id="edit" onclick="toggle('edit-menu')">Edit</button>
<button id="erase" onclick="location = '/erased'">Delete everything</button>
<a href="/help" id="help">Help pages</a>
<div class="menu" id="file-menu" hidden>
 <div role="menuitem" id="settings" onclick="layer.hidden = false; toggle('')">Settings</div>
 <div role="menuitem" id="sent" onclick="location = '/sent'">Send by mail</div></div>
<div class="menu" id="edit-menu" hidden><div role="menuitem" id="undo" onclick="1">Undo</div></div>
<div id="layer" hidden><h2 id="layer-title">Settings of the office</h2>
 <button role="tab" id="general" aria-selected="true" onclick="front('general')">General</button>
 <button role="tab" id="privacy" aria-selected="false" onclick="front('privacy')">Privacy</button></div>
<script>
const toggle = (name) => document.querySelectorAll(".menu").forEach((menu) => menu.hidden = menu.id !== name);
const front = (name) => document.querySelectorAll("[role=tab]").forEach((tab) =>
  tab.setAttribute("aria-selected", tab.id === name));
addEventListener("keydown", (event) => {
  if (event.key === "Escape") { toggle(""); document.getElementById("layer").hidden = true; }
});
</script>"""
_HELP = "<!doctype html><meta charset='utf-8'><title>Help</title><h1>How the office works</h1><p>Read this first.</p>"


class _Handler(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = (_HELP if self.path == "/help" else _PAGE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(asked: list[str]) -> Iterator[str]:
    """Serve the office on a free port; every path that is asked for goes into `asked`."""
    handler = type("Handler", (_Handler,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
