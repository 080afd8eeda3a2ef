"""Restore an OSWorld machine between two tasks, by the user's hook."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import httpx

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.desktop.connection import DesktopConnection
from trajmill.stages.environments.desktop.osworld.client import OsworldCode
from trajmill.stages.environments.desktop.spec import OsworldSpec, RestoreSpec
from trajmill.stages.environments.pool.child import run_command

_MARK = "~/.cache/trajmill/task"
"""File on a machine that has had a task. It goes with the machine's state, whoever restores it."""


class RestoreHook(NamedTuple):
    spec: RestoreSpec | None
    osworld: OsworldSpec

    async def freshen(self, desktop: DesktopConnection, task: str) -> None:
        """Restore a machine that has had a task, and mark it; raises EnvironmentFailure (`setup`) if it stays used."""
        url = desktop.server.url
        if await desktop.file(_MARK) is not None:
            if self.spec is None:
                raise _failure(f"{url} has had a task; restore it, or set `environment.restore`")
            try:
                async with asyncio.timeout(self.spec.seconds):
                    await self._restore(self.spec, httpx.URL(url), url)
            except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL) as error:
                reason = str(error) or f"not within {self.spec.seconds:g} s"
                raise _failure(f"{url} was not restored: {reason}") from error
            await desktop.wait_until_ready()
            if await desktop.file(_MARK) is not None:
                raise _failure(f"{url} is as the last task left it; `environment.restore` did not restore it")
        await desktop.upload(_MARK, task.encode())

    async def _restore(self, spec: RestoreSpec, address: httpx.URL, url: str) -> None:
        places = {"{host}": address.host, "{port}": str(address.port or 80)}
        if spec.command:
            await run_command([_filled(word, places) for word in spec.command])
        elif spec.url:
            async with httpx.AsyncClient(timeout=spec.seconds) as client:
                (await client.post(_filled(spec.url, places))).raise_for_status()
        elif spec.provider is not None:
            if url not in spec.machines:
                raise _failure(f"{url} has no virtual machine in `environment.restore.machines`")
            code = await OsworldCode.start(self.osworld, Path(), restores=True)
            try:
                found = await code.restore(spec.provider, spec.machines[url], spec.snapshot)
            finally:
                await code.python.close()
            if found.split(":")[0] != address.host:
                raise _failure(f"{url} came back at {found}; give it a fixed address")


def _filled(text: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def _failure(message: str) -> EnvironmentFailure:
    return EnvironmentFailure(message, FailureClass.SETUP)
