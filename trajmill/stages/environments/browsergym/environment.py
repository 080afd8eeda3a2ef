"""A BrowserGym task as an environment; the task's own validation is the programmatic check."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.actions import Action, action_to_json
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.browser.launch import EXECUTABLE
from trajmill.stages.environments.browser.page import make_observation
from trajmill.stages.environments.browsergym.protocol import PlayerError, PlayerRequest, PlayerReward, PlayerScreen
from trajmill.stages.environments.miniwob.pages import pages_folder
from trajmill.stages.environments.pool.reaper import end_processes
from trajmill.stages.environments.tasks import ImportedQueries, ask_at_seeds, joined, own_query

_SECONDS_TO_LEAVE = 5.0
_ANSWER: TypeAdapter[PlayerScreen | PlayerReward | PlayerError] = TypeAdapter(PlayerScreen | PlayerReward | PlayerError)
_LONGEST_ANSWER = 64 * 2**20
_PLAYER = "trajmill.stages.environments.browsergym.player"
_MAKER = "browsergym"


class BrowserGymStart(Record):
    """`Query.start_state` of a BrowserGym task."""

    task: str
    """BrowserGym's name of it, e.g. `miniwob.click-test`."""
    seed: int
    """The variant of the task."""
    arguments: dict[str, Any] = {}
    """Arguments of its class, e.g. `{"start_url": ...}` for `openended`."""


class BrowserGymEnvironment:
    """A player process; `Query.start_state` is a `BrowserGymStart`, the check is the task's own."""

    platform = Platform.WEB
    name = "browsergym"

    def __init__(self, player: Process, folder: Path, defaults: Mapping[str, Mapping[str, object]]) -> None:
        """Use a player process that has been started.

        Args:
            player: Its process.
            folder: Its temporary folder, which is removed with it.
            defaults: Arguments of tasks by the family they belong to, the first part of their name.
        """
        self._player = player
        self._folder = folder
        self._defaults = defaults
        self._task = ""
        self._answer_pending = False

    async def reset(self, query: Query, seed: int) -> Observation:
        """Start the query's task at the query's own seed; the argument `seed` is not used."""
        try:
            start = BrowserGymStart.model_validate_json(query.start_state)
        except ValidationError as error:
            words = error.errors(include_url=False)[0]["msg"]
            raise EnvironmentFailure(f"the start state of {query.task}: {words}", FailureClass.SETUP) from error
        return self._observation(await self.start(start))

    async def start(self, start: BrowserGymStart) -> PlayerScreen:
        """Start a task and return its first screen, which holds the goal."""
        self._task = start.task
        arguments = {**self._defaults.get(start.task.partition(".")[0], {}), **start.arguments}
        request = PlayerRequest(call="reset", task=start.task, seed=start.seed, arguments=json.dumps(arguments))
        try:
            return await self._request_screen(request)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        """Do one action, after which BrowserGym waits half a second; does nothing after the task has ended."""
        return self._observation(await self._request_screen(PlayerRequest(call="step", action=action_to_json(action))))

    async def score(self) -> float | None:
        """The reward of the task's validation after the last step."""
        answer = await self._ask(PlayerRequest(call="score"))
        assert isinstance(answer, PlayerReward)
        return answer.reward

    async def close(self) -> None:
        """End the player and its browser, by force where they do not end by themselves."""
        assert self._player.stdin is not None
        self._player.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self._answer_pending else _SECONDS_TO_LEAVE):
                await self._player.wait()
        if self._player.returncode is None:
            await asyncio.to_thread(end_processes, [self._player.pid])
            await self._player.wait()
        await asyncio.to_thread(rmtree, self._folder, ignore_errors=True)

    async def healthy(self) -> bool:
        """Whether the player runs and no answer is pending."""
        return self._player.returncode is None and not self._answer_pending

    def belongings(self) -> Belongings:
        """The player, whose browser is its descendant, and its folder."""
        return Belongings((self._player.pid,), (self._folder,))

    async def _request_screen(self, request: PlayerRequest) -> PlayerScreen:
        answer = await self._ask(request)
        assert isinstance(answer, PlayerScreen)
        return answer

    async def _ask(self, request: PlayerRequest) -> PlayerScreen | PlayerReward:
        assert self._player.stdin is not None and self._player.stdout is not None
        # This stays true where the wait is cancelled: the late answer must not be taken for that of another request.
        self._answer_pending = True
        try:
            self._player.stdin.write(request.model_dump_json().encode() + b"\n")
            await self._player.stdin.drain()
            answer = _ANSWER.validate_json(await self._player.stdout.readline())
        except (ConnectionError, ValidationError) as error:
            raise EnvironmentFailure(f"BrowserGym's process of {self._task or 'no task'} is gone") from error
        self._answer_pending = False
        if isinstance(answer, PlayerError):
            raise EnvironmentFailure(f"BrowserGym task {self._task}: {answer.error}")
        return answer

    def _observation(self, screen: PlayerScreen) -> Observation:
        return make_observation(base64.b64decode(screen.png), screen.size, screen.elements, self._task)


class BrowserGymFactory:
    """Starts one player process, with a browser of its own, for each environment."""

    async def __call__(self) -> BrowserGymEnvironment:
        """Start a player; the first reset starts its browser.

        Raises:
            EnvironmentFailure: BrowserGym or Chromium is not installed (class `setup`).
        """
        _refuse_missing_package()
        browser = shutil.which(EXECUTABLE)
        if browser is None:
            raise EnvironmentFailure(f"{EXECUTABLE} is not installed; run `make system-deps`", FailureClass.SETUP)
        folder = Path(tempfile.mkdtemp(prefix="trajmill-browsergym-"))
        try:
            player = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # a module of the user's in the working folder never takes the place of ours
                "-m",
                _PLAYER,
                browser,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_ANSWER,
                env=os.environ | {"TMPDIR": str(folder)},
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return BrowserGymEnvironment(player, folder, _defaults())

    async def close(self) -> None:
        """Do nothing: environments share nothing."""


def _refuse_missing_package() -> None:
    try:
        found = find_spec("browsergym.core")
    except ModuleNotFoundError:
        found = None
    if found is None:
        words = "browsergym-core is not installed; run `pip install 'trajmill[browsergym]'`"
        raise EnvironmentFailure(words, FailureClass.SETUP)


def _defaults() -> dict[str, dict[str, object]]:
    """Arguments that point MiniWoB++ tasks to the pages of the `miniwob` wheel, if it is installed."""
    if find_spec("miniwob") is None:
        return {}
    return {"miniwob": {"base_url": f"{pages_folder().as_uri()}/"}}


async def import_tasks(tasks: Sequence[str], splits: Sequence[Split], run_seed: int, origin: Origin) -> ImportedQueries:
    """Read the instruction of every task at every seed; one that cannot be started is a failure.

    Args:
        tasks: BrowserGym's names, e.g. `miniwob.click-test`.
        splits: the split of each seed.
        run_seed: decides the seeds.
        origin: common columns of the rows.
    """
    asked: list[ImportedQueries] = []
    for task in tasks:
        environment = await BrowserGymFactory()()
        try:
            ask = partial(_ask, environment, task, origin)
            asked.append(await ask_at_seeds(ask, task, splits, run_seed, origin, _MAKER))
        finally:
            await environment.close()
    return joined(asked)


async def _ask(environment: BrowserGymEnvironment, task: str, origin: Origin, seed: int) -> Query:
    start = BrowserGymStart(task=task, seed=seed)
    instruction = (await environment.start(start)).goal
    described = {"pages": (task,), "page_descriptions": ("A BrowserGym task.",), "phrasing": _MAKER}
    return own_query(Platform.WEB, task, instruction, start.model_dump_json(), origin, _MAKER, **described)
