"""A web application with a state API as an environment: its pages in a browser, starts and rewards by its state."""

from __future__ import annotations

from typing import Any, NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.browser.environment import BrowserEnvironment, BrowserFactory
from trajmill.stages.environments.browser.episode import PageTimeouts
from trajmill.stages.environments.browser.task import BrowserGoal
from trajmill.stages.environments.difference import Outcome
from trajmill.stages.environments.state_api.server import Session, StateApi, States, address_of, new_session
from trajmill.stages.environments.state_api.task import StateGoal, StateStart
from trajmill.stages.environments.tasks import read_part

_ON_PAGE = BrowserGoal()


class _Episode(NamedTuple):
    goal: StateGoal
    session: Session
    before: Any
    """State when the page had loaded; None if the application writes it only before the first change."""


class StateApiEnvironment:
    """One session of the application for each episode, shown in one context of a shared browser."""

    name = "state_api"

    def __init__(self, pages: BrowserEnvironment, api: StateApi) -> None:
        self.platform = pages.platform
        self._pages, self._api = pages, api
        self._episode: _Episode | None = None

    @property
    def refused(self) -> tuple[str, ...]:
        return self._pages.refused

    async def reset(self, query: Query, seed: int) -> Observation:
        start = read_part(StateStart.model_validate_json, query.start_state, "start state")
        goal = read_part(StateGoal.model_validate_json, query.goal, "goal")
        session = new_session(start.url)
        if start.state is None:
            await self._api.read(session)  # waits for the server
        else:
            await self._api.begin(session, start.state)
        there = start.model_copy(update={"url": address_of(start.url, session.sid)})
        seen = await self._pages.open(there, _ON_PAGE, seed, session.sid)
        # Only now: many applications add their defaults when their page loads.
        states = await self._api.read(session)
        self._episode = _Episode(goal, session, states.current)
        return seen

    async def step(self, action: Action) -> Observation:
        return await self._pages.step(action)

    async def score(self) -> float | None:
        outcome = await self._outcome()
        return None if outcome is None else float(outcome.reached)

    async def side_effects(self) -> tuple[str, ...] | None:
        outcome = await self._outcome()
        return None if outcome is None else outcome.beyond

    async def close(self) -> None:
        await self._pages.close()
        await self._api.close()

    def _running(self) -> _Episode:
        if self._episode is None:
            raise EnvironmentFailure("there was no reset", FailureClass.SETUP)
        return self._episode

    async def _outcome(self) -> Outcome | None:
        goal = self._running().goal
        return goal.outcome(*await self._states()) if goal.changes else None

    async def _states(self) -> States:
        """Return the state at the start and the present one."""
        episode = self._running()
        states = await self._api.read(episode.session)
        if episode.before is not None and states.current is None:
            raise EnvironmentFailure(f"{episode.session.origin} has lost the session of the episode")
        return States(states.initial if episode.before is None else episode.before, states.current)


class StateApiFactory:
    def __init__(
        self, platform: Platform = Platform.WEB, timeouts: PageTimeouts = PageTimeouts(), patience: float = 90.0
    ) -> None:
        """`patience` has the seconds that a server may be away."""
        self._pages, self._patience = BrowserFactory(platform, timeouts), patience

    async def __call__(self) -> StateApiEnvironment:
        return StateApiEnvironment(await self._pages(), StateApi(self._patience))

    async def close(self) -> None:
        await self._pages.close()
