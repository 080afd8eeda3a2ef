"""A desktop as an environment: OSWorld tasks, typed actions, and the task's own check of files and outputs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import ValidationError

from trajmill.schemas.actions import Action, Answer, Terminate, Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.desktop.connection import DesktopConnection
from trajmill.stages.environments.desktop.osworld.evaluation import evaluate
from trajmill.stages.environments.desktop.osworld.preparation import prepare, wait_until_settled
from trajmill.stages.environments.desktop.osworld.task import DesktopStart, SetupStep, parse_evaluator
from trajmill.stages.environments.desktop.tree import read_elements
from trajmill.stages.environments.first_mistake import first_mistake

_LONGEST_WAIT_SECONDS = 5.0
_SECONDS_TO_SAVE, _POLL_SECONDS = 2.0, 0.25


class DesktopEnvironment:
    """A desktop machine; `Query.start_state` is `{"config": [...]}` and `Query.goal` an evaluator, or `{}`.

    Each reset gives a local desktop a fresh session and home folder. On an OSWorld machine it only takes the steps of
    the task; restoring the machine's snapshot is left to the team.
    """

    platform = Platform.DESKTOP
    name = "desktop"

    def __init__(
        self,
        desktop: DesktopConnection,
        files: Path,
        give_back: Callable[[], Awaitable[None]],
        belongings: Belongings = Belongings(),
    ) -> None:
        """Use a machine that is ready.

        Args:
            desktop: the connection; the environment closes it.
            files: folder of the tasks' local files.
            give_back: called once at the end.
            belongings: the processes and folders of a local desktop.
        """
        self.desktop = desktop
        self._files = files
        self._give_back: Callable[[], Awaitable[None]] | None = give_back
        self._belongings = belongings
        self._goal = "{}"

    async def reset(self, query: Query, seed: int) -> Observation:
        """Prepare the query's task; the argument `seed` is not used."""
        self._goal = query.goal
        steps = _setup_steps(query)
        try:
            await self.desktop.reset()
            await prepare(self.desktop, steps, self._files)
            return await self._observe()
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{query.task}: {error}", FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        """Do one action and observe when the screen has settled."""
        match action:
            case Wait(seconds=seconds):
                await asyncio.sleep(min(max(seconds, 0.0), _LONGEST_WAIT_SECONDS))
            case Terminate() | Answer():
                pass
            case _:
                await self.desktop.act(action)
                if not self.desktop.settles:
                    await wait_until_settled(self.desktop)
        return await self._observe()

    async def score(self) -> float | None:
        """The result of the task's evaluator: 1 or 0; None if the task has none.

        A program may still be saving a file: a check that fails is repeated for two seconds.
        """
        goal = json.loads(self._goal)
        if not goal:
            return None
        try:
            evaluator = parse_evaluator(goal, "goal")
            until = time.monotonic() + _SECONDS_TO_SAVE
            while True:
                reward = await evaluate(self.desktop, evaluator, self._files)
                if reward >= 1.0 or time.monotonic() > until:
                    return reward
                await asyncio.sleep(_POLL_SECONDS)
        except (BadInputError, KeyError, TypeError, ValueError) as error:
            raise EnvironmentFailure(f"the check cannot be made: {error}", FailureClass.TASK) from error

    async def healthy(self) -> bool:
        """Whether the machine shows its screen."""
        try:
            await self.desktop.screenshot()
        except EnvironmentFailure:
            return False
        return True

    async def close(self) -> None:
        """Give the machine back; a local one ends."""
        give_back, self._give_back = self._give_back, None
        await self.desktop.close()
        if give_back is not None:
            await give_back()

    def belongings(self) -> Belongings:
        """The process and the folder of a local desktop; nothing for a remote machine."""
        return self._belongings

    async def _observe(self) -> Observation:
        tree_text = await self.desktop.accessibility()
        screenshot = await self.desktop.screenshot()
        tree = read_elements(tree_text, screenshot.size)
        digest = hashlib.blake2b(screenshot.png, digest_size=12)
        digest.update(repr(tree).encode())
        png = screenshot.png
        return Observation(ScreenHandle(digest.hexdigest(), screenshot.size, lambda: png), tree.elements, tree.app)


def _setup_steps(query: Query) -> tuple[SetupStep, ...]:
    try:
        return DesktopStart.model_validate_json(query.start_state).config
    except ValidationError as error:
        text = f"{query.task}: the start state is malformed: {first_mistake(error, 'the whole')}"
        raise EnvironmentFailure(text, FailureClass.TASK) from error
