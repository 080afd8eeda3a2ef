"""Ask the process that runs `desktop-env`; it raises only `EnvironmentFailure`."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.connection import DesktopServer
from trajmill.stages.environments.desktop.osworld import process
from trajmill.stages.environments.desktop.osworld.process import Answer, Machine, Request
from trajmill.stages.environments.desktop.spec import OsworldSpec
from trajmill.stages.environments.pool.child import end_child

_SECONDS_TO_START = 180.0
_SECONDS_TO_END = 2.0
_LONGEST_ANSWER = 1 << 22
_INHERITED = ("PATH", "LANG", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT_FILE")
"""Environment variables for a process that handles untrusted tasks; no keys are among them."""


class OsworldCode:
    """One process with a folder of its own; serves one request at a time."""

    def __init__(self, spec: OsworldSpec, files: Path, process: Process, folder: TemporaryDirectory[str]) -> None:
        self._spec = spec
        self._files = files
        self._process = process
        self._folder = folder

    @classmethod
    async def start(cls, spec: OsworldSpec, files: Path, own_variables: Mapping[str, str] = {}) -> OsworldCode:
        """Start the process; raises EnvironmentFailure (`setup`) if the interpreter or desktop-env is missing."""
        folder = TemporaryDirectory(prefix="trajmill-osworld-")
        try:
            started = await asyncio.create_subprocess_exec(
                *(str(spec.python.absolute()), "-P", process.__file__),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_ANSWER,
                env=_variables(spec, folder.name, own_variables),
                cwd=folder.name,
                start_new_session=True,
            )
        except OSError as error:
            folder.cleanup()
            advice = f"{spec.python} cannot be started ({error.strerror}); run `make osworld-env`"
            raise EnvironmentFailure(advice, FailureClass.SETUP) from error
        code = cls(spec, files, started, folder)
        try:
            await code._answer(_SECONDS_TO_START)
        except BaseException:
            await code.close()
            raise
        return code

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    async def check(self, task: dict[str, Any]) -> tuple[str, ...]:
        """Return what a task lacks."""
        return (await self._ask(Request("check", task))).reasons

    async def prepare(self, task: dict[str, Any], server: DesktopServer, size: Size) -> None:
        await self._ask(Request("setup", task, self._machine(server, size)))

    async def evaluate(self, task: dict[str, Any], server: DesktopServer, size: Size, gave_up: bool) -> float:
        return (await self._ask(Request("evaluate", task, self._machine(server, size), gave_up=gave_up))).score

    async def restore(self, provider: str, machine: str, snapshot: str) -> str:
        """Revert a virtual machine and return its address."""
        return (await self._ask(Request("restore", snapshot=(provider, machine, snapshot)))).address

    async def close(self) -> None:
        await end_child(self._process, _SECONDS_TO_END)
        await asyncio.to_thread(self._folder.cleanup)

    def _machine(self, server: DesktopServer, size: Size) -> Machine:
        url = httpx.URL(server.url)
        # A local desktop takes its token as a password, so that desktop-env need not know of it.
        host = f"token:{server.token}@{url.host}" if server.token else url.host
        spec = self._spec
        return Machine(host, url.port or 80, spec.chromium_port, spec.vlc_port, spec.password, size.width, size.height)

    async def _ask(self, request: Request) -> Answer:
        mirror = str(self._spec.mirror.absolute()) if self._spec.mirror else ""
        own = {"files": str(self._files.absolute()), "mirror": mirror, "proxy": self._spec.proxy_file is not None}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**asdict(request), **own}).encode() + b"\n")
        return await self._answer(self._spec.seconds)

    async def _answer(self, seconds: float) -> Answer:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                fields = json.loads(await self._process.stdout.readline())
                answer = Answer(**{**fields, "reasons": tuple(fields["reasons"])})
        except TimeoutError as error:
            # What it still does to the machine must not reach the next task.
            await end_child(self._process, 0.0)
            raise EnvironmentFailure(f"OSWorld's code did not answer within {seconds:g} s") from error
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise EnvironmentFailure("the process of OSWorld's code has ended") from error
        if answer.error:
            raise EnvironmentFailure(f"OSWorld's code: {answer.error}")
        return answer


def _variables(spec: OsworldSpec, folder: str, own: Mapping[str, str]) -> dict[str, str]:
    found = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    if spec.proxy_file is not None:
        found["PROXY_CONFIG_FILE"] = str(spec.proxy_file.absolute())
    # Without the last, it reads a file `.env` of the project.
    return {**found, "HOME": folder, "TMPDIR": folder, "PYTHON_DOTENV_DISABLED": "1", **own}
