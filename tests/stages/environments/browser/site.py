"""A small real web site on loopback, with all that can get in the way of an agent."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests import http_server

_STYLE = "<style>body { font: 16px sans-serif } button, a, input, select { display: block; margin: 8px }</style>"
PAGES = {
    "/": """
<h1>Shop</h1><button id="buy" onclick="total.textContent = ++count">Buy</button><p>Total <b id="total">0</b></p>
<a href="/next">Next page</a><a href="/inner" target="_blank">New tab</a>
<select id="size" onchange="chosen.textContent = value"><option>Small<option>Medium<option>Large</select>
<p id="chosen"></p>
<input id="name" placeholder="Name" oninput="localStorage.setItem('name', value)">
<input id="agree" type="checkbox"><label for="agree">Agree</label>
<script>var count = 0</script>""",
    "/next": "<h1>Next</h1><p>Arrived</p>",
    "/states": """
<dialog id="d"><p id="name">Dark mode</p><button role="switch" aria-checked="true" aria-labelledby="name">.</button>
<select><option>Red<option>Blue<option disabled>Gone</select></dialog><script>d.showModal()</script>""",
    "/inner": """
<button onclick="window.close()">Close me</button><button onclick="this.textContent = 'Pressed'">Inside</button>""",
    "/frames": """
<div style="position: absolute; left: 60px; top: 100px; padding: 5px; border: 7px solid">
<iframe src="/inner" style="border: 11px solid; padding: 3px; width: 300px; height: 80px"></iframe></div>""",
    "/dialogs": """
<button onclick="alert('Careful <b>now</b>'); alert('And again'); said.textContent = 'alerted'">Alert</button>
<button onclick="said.textContent = confirm('Delete it?') ? 'deleted' : 'kept'">Confirm</button>
<button onclick="said.textContent = prompt('Your name?', 'Nobody')">Prompt</button><p id="said"></p>""",
    "/alert-at-once": "<script>alert('Welcome')</script><h1>Inside</h1>",
    "/files": """
<input type="file" id="file" onchange="files[0].text().then(text => said.textContent = files[0].name + ': ' + text)">
<p id="said"></p>
<a href="data:text/plain,1%2C2" download="table.csv">Download</a>""",
    "/moving": """
<style>@keyframes slide { to { transform: translateX(200px) } } #box { width: 50px; height: 50px; background: red;
animation: slide 2s infinite alternate }</style>
<div id="box"></div><p id="now"></p><p id="chance"></p><p id="ticks">0</p><input autofocus>
<script>now.textContent = new Date().toISOString(); chance.textContent = Math.random();
setInterval(() => ticks.textContent = Number(ticks.textContent) + 1, 100)</script>""",
    "/long": """
<body style="margin: 0"><div style="height: 3000px; background: linear-gradient(red, blue)"><p>Top</p></div>
<p>Bottom</p>
<script>document.ontouchstart = () => document.title = "touched"</script>""",
    "/modal": """
<button>Under</button>
<div role="dialog" style="position: fixed; inset: 0; background: rgba(0, 0, 0, .5)"><button>Over</button></div>""",
    "/drawn-by-others": """
<style>.mark { display: inline-block; width: 20px; height: 20px; border: 1px solid }
:checked + .mark { background: green }
label, .card { display: block; position: relative } .over { position: absolute; inset: 0; margin: 0 }
label input { opacity: 0; position: absolute; margin: 0; width: 20px; height: 20px }</style>
<label><input type="checkbox"><span class="mark"></span> Newsletter</label>
<div class="card"><p>Card</p><a href="/next" aria-label="Open" class="over"></a></div>
<div class="card"><p>Bare</p><div class="over"></div></div>
<div class="card"><p>Gone</p><div class="over" style="background: white"></div></div>
<input style="opacity: 0" placeholder="Trap">""",
    "/outside": """
<a href="http://localhost:8999/">Elsewhere</a><p id="said"></p>
<script>fetch("http://localhost:8999/x").catch(() => said.textContent = "refused")</script>""",
    "/launcher": """
<style>body { margin: 0; background: linear-gradient(#2f5f9e, #6f9fd8) } div { display: flex }
a { width: 110px; height: 110px; margin: 8px; color: white; text-align: center; text-decoration: none }
i { display: block; width: 72px; height: 72px; margin: 4px auto; border-radius: 16px }
main { background: white; padding: 8px } main button { width: 300px; height: 44px; border: 0; color: white }</style>
<div><a href="#1"><i style="background: #c0392b"></i>Mail</a><a href="#2"><i style="background: #1250b0"></i>Files</a>
<a href="#3"><i style="background: conic-gradient(red, yellow, lime, aqua, blue, magenta, red)"></i>Photos</a>
<a href="#4"><i style="background: #00796b"></i>Wallet</a><a href="#5"><i></i>Bare</a></div>
<main><button style="background: #2e9e3b">Send</button><button style="background: #ef6c00">Later</button>
<button style="background: #e8eef9; color: #1250b0">Help</button><a href="#6" style="color: #1250b0">Terms</a>
<input placeholder="Name"></main>""",
    "/hangs": "<button onclick='while (true);'>Hang</button>",
    "/touch": """
<meta name="viewport" content="width=device-width">
<button id="tap" ontouchend="this.textContent = 'touched'">Tap</button><p id="width"></p>
<script>width.textContent = innerWidth + " " + devicePixelRatio + " " + navigator.maxTouchPoints</script>""",
}


@contextmanager
def serving(pages: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a site, by default this one, while it is up."""
    stopped = threading.Event()
    shown = {path: _STYLE + page for path, page in PAGES.items()} if pages is None else pages

    class Handler(http_server.QuietHandler):
        def reply(self) -> None:
            if self.path == "/never":
                stopped.wait()
            elif self.path == "/away":
                self.answer(status=302, Location="http://localhost:8999/away")
            else:
                known, page = self.path in shown, shown.get(self.path, "<h1>Not found</h1>")
                body = f"<!doctype html><html lang=en>{page}".encode()
                self.answer(body, 200 if known else 404, Content_Type="text/html; charset=utf-8")

    with http_server.serving(Handler) as url:
        try:
            yield url
        finally:
            stopped.set()
