"""An environment that an OpenEnv server runs, in a session of its own."""

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
    """Queries go by their ids: the server knows their start states and goals."""

    name = "openenv"

    def __init__(self, session: ServerSession, platform: Platform) -> None:
        """Use a session that is open, and close it in the end."""
        self.platform = platform
        self._session = session
        self._seen: Observation | None = None
        self._reward: float | None = None
        self._over = True

    async def reset(self, query: Query, seed: int) -> Observation:
        """Begin an episode, which the server does not record: whoever rolls out does."""
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
        """Do one action; after the end of the episode nothing is done."""
        if not self._over:
            await self._ask(step_message(WireAction(action=json.loads(action.model_dump_json()))))
        return self._shown()

    async def score(self) -> float | None:
        """The reward that the server gave last; an episode that is not over is ended."""
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
        """End the session, so that the server has room for another."""
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
