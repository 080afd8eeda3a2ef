"""Ask the process that runs `desktop-env`; it raises only `EnvironmentFailure`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.connection import DesktopServer
from trajmill.stages.environments.desktop.osworld import process
from trajmill.stages.environments.desktop.osworld.process import Answer, Machine, Request
from trajmill.stages.environments.desktop.spec import OsworldSpec
from trajmill.stages.environments.pool.other_python import OtherPython


class OsworldCode(NamedTuple):
    """OSWorld's code for the tasks of a folder of `files`."""

    spec: OsworldSpec
    files: Path
    python: OtherPython

    @classmethod
    async def start(cls, spec: OsworldSpec, files: Path, restores: bool = False) -> OsworldCode:
        """Start the process, or one that only restores; raises EnvironmentFailure (`setup`) if code is missing."""
        # Without the first, desktop-env reads a file `.env` of the project.
        variables = {"PYTHON_DOTENV_DISABLED": "1", **(os.environ if restores else {})}
        if spec.proxy_file is not None:
            variables["PROXY_CONFIG_FILE"] = str(spec.proxy_file.absolute())
        script, advice = [str(process.__file__), *["restore"] * restores], "run `make osworld-env`"
        return cls(spec, files, await OtherPython.start("OSWorld's code", spec.python, script, advice, variables))

    async def check(self, task: dict[str, Any]) -> tuple[str, ...]:
        return (await self._ask(Request("check", task))).reasons

    async def prepare(self, task: dict[str, Any], server: DesktopServer, size: Size) -> None:
        await self._ask(Request("setup", task, self._machine(server, size)))

    async def evaluate(self, task: dict[str, Any], server: DesktopServer, size: Size, gave_up: bool) -> float:
        return (await self._ask(Request("evaluate", task, self._machine(server, size), gave_up=gave_up))).score

    async def restore(self, provider: str, machine: str, snapshot: str) -> str:
        """Revert a virtual machine and return its address."""
        return (await self._ask(Request("restore", snapshot=(provider, machine, snapshot)))).address

    def _machine(self, server: DesktopServer, size: Size) -> Machine:
        url = httpx.URL(server.url)
        # A local desktop takes its token as a password, so that desktop-env need not know of it.
        host = f"token:{server.token}@{url.host}" if server.token else url.host
        spec = self.spec
        return Machine(host, url.port or 80, spec.chromium_port, spec.vlc_port, spec.password, size.width, size.height)

    async def _ask(self, request: Request) -> Answer:
        mirror = str(self.spec.mirror.absolute()) if self.spec.mirror else ""
        own = {"files": str(self.files.absolute()), "mirror": mirror, "proxy": self.spec.proxy_file is not None}
        fields = await self.python.ask({**asdict(request), **own}, self.spec.seconds)
        return Answer(**{**fields, "reasons": tuple(fields["reasons"])})
