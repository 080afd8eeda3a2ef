"""AndroidWorld's tasks, prepared and scored by its own server (`server/android_server.py`), which has the emulator.

Paths and arguments are those of google-research/android_world at d9c569f (2026-02-24).
"""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.android.spec import AndroidWorldSpec
from trajmill.stages.environments.android.task import PhoneStart, WorldTask
from trajmill.stages.environments.tasks import own_query

_MAKER = "android_world"
_SPLITS = (Split.TRAIN, Split.HELDOUT_SLOTS, Split.TRAIN, Split.VALIDATION)


class WorldServer(NamedTuple):
    url: str
    spec: AndroidWorldSpec

    async def open(self) -> None:
        """Draw the instances of all tasks, which are equal on every server."""
        await self._call("GET", "/suite/reinitialize", n_task_combinations=self.spec.instances, seed=self.spec.seed)

    async def queries(self, origin: Origin) -> list[Query]:
        """Return its tasks as queries; raises EnvironmentFailure (`task`) for an unknown name."""
        known = (await self._call("GET", "/suite/task_list", max_index=-1))["task_list"]
        if unknown := set(self.spec.tasks) - set(known):
            raise EnvironmentFailure(f"AndroidWorld has no task {', '.join(sorted(unknown))}", FailureClass.TASK)
        made = []
        for task in (
            WorldTask(task=n, instance=i) for n in self.spec.tasks or known for i in range(self.spec.instances)
        ):
            instruction = (await self._call("GET", "/task/goal", **_named(task)))["goal"]
            start = PhoneStart(android_world=task).model_dump_json(exclude_defaults=True)
            others = {
                "max_steps": self.spec.max_steps,
                "split": _SPLITS[task.instance % len(_SPLITS)],
                "phrasing": _MAKER,
            }
            made.append(own_query(Platform.PHONE, task.task, instruction, start, origin, _MAKER, **others))
        return made

    async def begin(self, task: WorldTask) -> None:
        await self._call("POST", "/task/initialize", **_named(task))
        await self._call("POST", "/reset", go_home="true")

    async def score(self, task: WorldTask, answer: str | None) -> float:
        if answer is not None:
            await self._call("POST", "/execute_action", {"action_type": "answer", "text": answer})
        return float((await self._call("GET", "/task/score", **_named(task)))["score"])

    async def tear_down(self, task: WorldTask) -> None:
        await self._call("POST", "/task/tear_down", **_named(task))

    async def _call(self, method: str, path: str, body: object = None, **query: object) -> dict[str, Any]:
        return await asyncio.to_thread(self._request, method, path, body, urlencode(query))

    def _request(self, method: str, path: str, body: object, query: str) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}{path}?{query}", content, {"Content-Type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=self.spec.seconds) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            reason = f"{error.code}: {error.read(200).decode(errors='replace')}"
        except (OSError, HTTPException, ValueError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        raise EnvironmentFailure(f"AndroidWorld at {self.url}{path}: {' '.join(reason.split())}")


def _named(task: WorldTask) -> dict[str, Any]:
    return {"task_type": task.task, "task_idx": task.instance}
