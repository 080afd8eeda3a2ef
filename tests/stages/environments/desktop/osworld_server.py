"""A small machine that speaks the OSWorld server protocol and nothing else: no typed actions, no token, no reset.

Its screen is a picture of the text that has been typed; `/execute` runs the very Python that a real machine would run,
with a `pyautogui` of its own that writes down what it is told to do.
"""

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image, ImageDraw

from tests.stages.models.pictures import as_png

NAMESPACE = "https://accessibility.ubuntu.example.org/ns"
SECONDS_OF_CLIPBOARD = 20
"""How long the tool lives that holds what was copied."""
_PYAUTOGUI = """
import json, pathlib
_LOG = pathlib.Path(__file__).with_name("calls.jsonl")
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    def call(*arguments):
        with _LOG.open("a") as log:
            log.write(json.dumps([name, list(arguments)]) + chr(10))
    return call
"""
# Like the clipboard tool of a real machine, it lives on and keeps the pipes that it was given.
_PYPERCLIP = f"""
import subprocess, pyautogui
def copy(text):
    pyautogui.copy(text)
    subprocess.Popen(["sleep", "{SECONDS_OF_CLIPBOARD}"])
"""
_TREE = (
    f'<desktop-frame xmlns:st="{NAMESPACE}/state" xmlns:cp="{NAMESPACE}/component" name="main">'
    '<application name="gedit"><frame name="Letter" st:showing="true" st:visible="true" st:active="true"'
    ' cp:screencoord="(0, 0)" cp:size="(320, 200)"><push-button name="Save" st:showing="true" st:visible="true"'
    ' st:enabled="true" cp:screencoord="(10, 10)" cp:size="(40, 20)"/></frame></application></desktop-frame>'
)


@dataclass
class OsworldMachine:
    """The machine's state, and the faults that a test asks of it."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)
    launched: list[Any] = field(default_factory=list)
    commands: list[Any] = field(default_factory=list)
    windows: list[tuple[str, str]] = field(default_factory=list)
    booting: int = 0
    """How many more requests are answered by 503."""
    empty_screenshots: bool = False
    restored: int = 0
    hangs: bool = False
    breaks: bool = False
    url: str = ""
    home: Path | None = None
    """Folder that `/home/user` is, in paths and commands; without it, files are only remembered."""

    def real(self, text: str) -> str:
        return text.replace("/home/user", str(self.home)) if self.home else text

    def calls(self) -> list[Any]:
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def restore(self) -> list[str]:
        """Forget all files, as a snapshot does, and return their names."""
        names, self.files = [*self.files], {}
        self.restored += 1
        if self.home:
            shutil.rmtree(self.home, ignore_errors=True)
            (self.home / "Desktop").mkdir(parents=True)
        return names

    def picture(self) -> bytes:
        image = Image.new("RGB", (320, 200), "white")
        ImageDraw.Draw(image).text((5, 60), f"{len(self.launched)} {len(self.calls())}", fill="black")
        return as_png(image)


@asynccontextmanager
async def osworld_machine(folder: Path) -> AsyncIterator[OsworldMachine]:
    machine = OsworldMachine(folder)
    (folder / "pyautogui.py").write_text(_PYAUTOGUI)
    (folder / "pyperclip.py").write_text(_PYPERCLIP)
    runner = web.AppRunner(_application(machine), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    machine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield machine
    finally:
        await runner.cleanup()


def _application(machine: OsworldMachine) -> web.Application:
    async def execute(asked: Any) -> web.Response:
        machine.commands.append(asked)
        words = [sys.executable if word == "python" else machine.real(word) for word in asked["command"]]
        process = await asyncio.create_subprocess_exec(*words, cwd=machine.folder, stdout=PIPE, stderr=PIPE)
        output, error = await process.communicate()
        said = {"output": output.decode(), "error": error.decode(), "returncode": process.returncode}
        return web.json_response({"status": "success", **said})

    async def answer(request: web.Request) -> web.Response:
        if machine.booting > 0:
            machine.booting -= 1
            return web.Response(status=503, text="booting")
        if machine.hangs:
            await asyncio.sleep(3600)
        if machine.breaks:
            return web.json_response({"status": "error", "message": "the display is gone"}, status=500)
        match request.method, request.path:
            case "GET", "/screenshot":
                png = b"" if machine.empty_screenshots else machine.picture()
                return web.Response(body=png, content_type="image/png")
            case "GET", "/accessibility":
                return web.json_response({"AT": _TREE})
            case "POST", "/restore":
                machine.restore()
            case "POST", "/execute" | "/setup/execute":
                return await execute(await request.json())
            case "POST", "/setup/launch":
                machine.launched.append((await request.json())["command"])
            case "POST", "/setup/upload":
                form = await request.post()
                data = form["file_data"]
                assert isinstance(data, web.FileField)
                path = str(form["file_path"])
                machine.files[path] = data.file.read()
                if machine.home and path.startswith("/home"):
                    Path(machine.real(path)).write_bytes(machine.files[path])
            case "POST", "/file":
                path = str((await request.post())["file_path"])
                content = machine.files.get(path)
                if machine.home and (real := Path(machine.real(path))).is_file():
                    content = real.read_bytes()
                missing = web.json_response({"error": "File not found"}, status=404)
                return missing if content is None else web.Response(body=content)
            case "POST", "/setup/activate_window" | "/setup/close_window":
                machine.windows.append((request.path, (await request.json())["window_name"]))
            case _:
                return web.Response(status=404)
        return web.Response(text="done")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    return application
