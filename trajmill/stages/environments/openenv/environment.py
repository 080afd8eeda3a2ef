"""An environment that runs at an OpenEnv server; each one has its own session."""

from __future__ import annotations

import json

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.openenv.answers import EpisodeAnswer, reset_message, step_message
from trajmill.stages.environments.openenv.session import ServerSession
from trajmill.stages.environments.openenv.wire import WireAction, to_observation


class OpenEnvEnvironment:
    """Sends only the id of a query: the server knows its start state and its goal."""

    name = "openenv"

    def __init__(self, session: ServerSession, platform: Platform) -> None:
        """Use an open session; `close` ends it."""
        self.platform = platform
        self._session = session
        self._seen: Observation | None = None
        self._reward: float | None = None
        self._over = True

    async def reset(self, query: Query, seed: int) -> Observation:
        """Begin an episode. The server does not store it, because the caller does."""
        self._seen, self._reward, self._over = None, None, False
        try:
            answer = await self._ask(reset_message(query.query_id, seed, record=False))
        except EnvironmentFailure as error:
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error
        if answer.screen.query_id not in ("", query.query_id):
            text = f"{self._session.url} began query {answer.screen.query_id:.60} in the place of {query.query_id}"
            raise EnvironmentFailure(text, FailureClass.SETUP)
        return self._shown()

    async def step(self, action: Action) -> Observation:
        """Do one action; after the end of the episode, do nothing."""
        if not self._over:
            await self._ask(step_message(WireAction(action=json.loads(action.model_dump_json()))))
        return self._shown()

    async def score(self) -> float | None:
        """The last reward that the server gave; ends the episode if it still runs."""
        if not self._over:
            await self._ask(step_message(WireAction(stop=True)))
        return None if self._reward is None else min(max(self._reward, 0.0), 1.0)

    async def healthy(self) -> bool:
        """Whether the server answers in this session."""
        try:
            await self._session.state()
        except EnvironmentFailure:
            return False
        return True

    async def close(self) -> None:
        """End the session, so that the server can take another one."""
        await self._session.close()

    async def _ask(self, message: str) -> EpisodeAnswer:
        answer = await self._session.ask(message)
        self._over = answer.done
        if answer.screen.void:
            raise EnvironmentFailure(f"{self._session.url}: {answer.screen.error or 'the episode is void'}")
        if answer.reward is not None:
            self._reward = answer.reward
        if answer.screen.screenshot or self._seen is None:
            self._seen = to_observation(answer.screen)
        return answer

    def _shown(self) -> Observation:
        if self._seen is None:
            raise EnvironmentFailure(f"{self._session.url}: no episode is under way")
        return self._seen
