"""The client of one desktop machine with the OSWorld server protocol; it raises only `EnvironmentFailure`."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
from PIL import Image, UnidentifiedImageError

from trajmill.schemas import actions
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.protocol import (
    MOST_CLICKS,
    TOKEN_HEADER,
    CommandResult,
    bounded_press_seconds,
    bounded_wheel_clicks,
    swipe_wheel_clicks,
)
from trajmill.stages.environments.keys import find_keys

_POLL_SECONDS = 0.25
_NOT_FOUND = 404
# The machine always runs this program, which reads the calls to make from its last argument. pyautogui can type only
# ASCII; other text is pasted from the clipboard. The tool that holds the clipboard lives on: if it held this program's
# pipes, the server would wait for it.
_PROGRAM = """
import base64, json, os, sys, time
import pyautogui
pyautogui.FAILSAFE = False
pyautogui.PAUSE = 0.02
for name, arguments in json.loads(base64.b64decode(sys.argv[1])):
    if name == "hold":
        pyautogui.mouseDown()
        time.sleep(arguments[0])
        pyautogui.mouseUp()
    elif name == "paste":
        import pyperclip
        pipes = [os.dup(1), os.dup(2)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            pyperclip.copy(arguments[0])
        finally:
            os.dup2(pipes[0], 1)
            os.dup2(pipes[1], 2)
        pyautogui.hotkey("ctrl", "v")
    else:
        getattr(pyautogui, name)(*arguments)
"""
_DRAG_SECONDS = 0.3

Call = tuple[str, tuple[Any, ...]]


class DesktopServer(NamedTuple):
    url: str
    token: str = ""
    """Secret that a local desktop requires; an OSWorld machine has none."""


class DesktopTimeouts(NamedTuple):
    lease: float = 60.0
    """A machine that another process uses becomes free."""
    ready: float = 300.0
    request: float = 30.0
    prepare: float = 150.0
    end: float = 15.0
    """A local desktop ends by itself; then it is killed."""


class Screenshot(NamedTuple):
    png: bytes
    size: Size


class DesktopConnection:
    def __init__(self, server: DesktopServer, timeouts: DesktopTimeouts = DesktopTimeouts()) -> None:
        self.server = server
        self._timeouts = timeouts
        headers = {TOKEN_HEADER: server.token} if server.token else {}
        # Proxies in environment variables are ignored.
        self._http = httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False)
        self.settles = False
        """Whether it takes actions as data, and answers once the screen stays the same."""
        self.resets = False

    async def wait_until_ready(self) -> None:
        """Wait for a screenshot and read the server's features; raises EnvironmentFailure (`setup`) in the end."""
        deadline = time.monotonic() + self._timeouts.ready
        while True:
            try:
                await self.screenshot()
                break
            except EnvironmentFailure as error:
                if time.monotonic() > deadline:
                    text = f"the desktop at {self.server.url} was not ready within {self._timeouts.ready:g} s: {error}"
                    raise EnvironmentFailure(text, FailureClass.SETUP) from error
            await asyncio.sleep(_POLL_SECONDS)
        answer = await self._send("GET", "/capabilities", self._timeouts.request)
        offered = _object(answer) if answer.status_code == httpx.codes.OK else {}
        self.settles, self.resets = bool(offered.get("typed_actions")), bool(offered.get("reset"))

    async def reset(self) -> None:
        """Start a fresh session if the server can do so; an OSWorld machine keeps its state."""
        if self.resets:
            await self._post("/reset", self._timeouts.prepare, json={})

    async def screenshot(self) -> Screenshot:
        answer = self._checked(await self._send("GET", "/screenshot", self._timeouts.request))
        try:
            with Image.open(io.BytesIO(answer.content)) as image:
                image.load()
                return Screenshot(answer.content, Size(*image.size))
        except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
            length = len(answer.content)
            raise EnvironmentFailure(f"{self.server.url} sent {length} bytes that are no screenshot") from error

    async def accessibility(self) -> str:
        tree = _object(self._checked(await self._send("GET", "/accessibility", self._timeouts.request))).get("AT")
        if not isinstance(tree, str):
            raise EnvironmentFailure(f"{self.server.url} sent no accessibility tree")
        return tree

    async def act(self, action: actions.Action) -> None:
        """Do an action: as data if the server supports typed actions, else as pyautogui's calls."""
        if self.settles:
            await self._post("/action", self._timeouts.request, content=actions.action_to_json(action))
            return
        command = as_command(action)
        if command is None:
            return
        done = await self._run(command, False, self._timeouts.request)
        if done.code:
            raise EnvironmentFailure(f"{self.server.url} could not do an action: {_last_line(done.error)}")

    async def execute(self, command: str | Sequence[str], shell: bool = False) -> CommandResult:
        """Run a command of the task to its end; never one that a model wrote."""
        return await self._run(command, shell, self._timeouts.prepare)

    async def launch(self, command: str | Sequence[str], shell: bool = False) -> None:
        await self._post("/setup/launch", self._timeouts.prepare, json={"command": command, "shell": shell})

    async def open_file(self, path: str) -> None:
        await self._post("/setup/open_file", self._timeouts.prepare, json={"path": path})

    async def handle_window(self, handling: str, name: str, strict: bool, by_class: bool) -> None:
        body = {"window_name": name, "strict": strict, "by_class": by_class}
        await self._post(f"/setup/{handling}", self._timeouts.prepare, json=body)

    async def upload(self, path: str, content: bytes) -> None:
        form: dict[str, Any] = {"data": {"file_path": path}, "files": {"file_data": (path.rpartition("/")[2], content)}}
        await self._post("/setup/upload", self._timeouts.prepare, **form)

    async def file(self, path: str) -> bytes | None:
        answer = await self._send("POST", "/file", self._timeouts.request, data={"file_path": path})
        return None if answer.status_code == _NOT_FOUND else self._checked(answer).content

    async def close(self) -> None:
        await self._http.aclose()

    async def _run(self, command: str | Sequence[str], shell: bool, seconds: float) -> CommandResult:
        done = _object(await self._post("/execute", seconds, json={"command": command, "shell": shell}))
        return CommandResult(str(done.get("output", "")), str(done.get("error", "")), int(done.get("returncode") or 0))

    async def _post(self, path: str, seconds: float, **body: Any) -> httpx.Response:
        return self._checked(await self._send("POST", path, seconds, **body))

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        try:
            body = answer.json()
        except ValueError:
            body = None
        text = body.get("message") if isinstance(body, dict) else None
        reason = _last_line(str(text or answer.text)) or "no reason given"
        raise EnvironmentFailure(f"{self.server.url}{answer.request.url.path} answered {answer.status_code}: {reason}")

    async def _send(self, method: str, path: str, seconds: float, **body: Any) -> httpx.Response:
        try:
            async with asyncio.timeout(seconds):
                return await self._http.request(method, path, timeout=seconds, **body)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise EnvironmentFailure(f"{self.server.url}{path} did not answer within {seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EnvironmentFailure(f"{self.server.url}{path} cannot be reached: {error}") from error


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError as error:
        raise EnvironmentFailure(f"{answer.request.url} sent no JSON") from error
    return body if isinstance(body, dict) else {}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def as_command(action: actions.Action) -> list[str] | None:
    calls = _calls(action)
    return ["python", "-c", _PROGRAM, base64.b64encode(json.dumps(calls).encode()).decode()] if calls else None


def _calls(action: actions.Action) -> Sequence[Call]:
    match action:
        case actions.Click(x=x, y=y, button=button, count=count):
            return [("click", (x, y, min(count, MOST_CLICKS), 0.05, button))]
        case actions.LongPress(x=x, y=y, seconds=seconds):
            return [("moveTo", (x, y)), ("hold", (bounded_press_seconds(seconds),))]
        case actions.MoveMouse(x=x, y=y):
            return [("moveTo", (x, y))]
        case actions.Drag(x=x, y=y, x2=x2, y2=y2):
            return [("moveTo", (x, y)), ("dragTo", (x2, y2, _DRAG_SECONDS))]
        case actions.DragTo(x=x, y=y):
            return [("dragTo", (x, y, _DRAG_SECONDS))]
        case actions.Swipe(x=x, y=y, y2=y2):
            return [("moveTo", (x, y)), ("scroll", (swipe_wheel_clicks(y, y2),))]
        case actions.Scroll(x=x, y=y, clicks=clicks):
            return _wheel("scroll", x, y, clicks)
        case actions.HorizontalScroll(x=x, y=y, clicks=clicks):
            return _wheel("hscroll", x, y, clicks)
        case actions.TypeText(text=text, clear=clear, enter=enter):
            emptied: list[Call] = [("hotkey", ("ctrl", "a")), ("press", ("delete",))] if clear else []
            typed: list[Call] = [("write" if text.isascii() else "paste", (text,))] if text else []
            return [*emptied, *typed, *([("press", ("enter",))] if enter else [])]
        case actions.PressKeys(keys=keys):
            names = tuple(key.pyautogui for key in find_keys(keys))
            return [("hotkey", names)] if names else []
        case _:
            return []


def _wheel(name: str, x: int | None, y: int | None, clicks: int) -> Sequence[Call]:
    turn: Call = (name, (bounded_wheel_clicks(clicks),))
    return [turn] if x is None or y is None else [("moveTo", (x, y)), turn]
