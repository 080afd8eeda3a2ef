"""A web application with a state API as an environment: its pages in a browser, starts and rewards by its state."""

from __future__ import annotations

from typing import Any, NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, look_of
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Patience, begun
from trajmill.stages.environments.browser.environment import BrowserEnvironment, BrowserFactory
from trajmill.stages.environments.browser.episode import PageTimeouts
from trajmill.stages.environments.browser.page import PagePlace
from trajmill.stages.environments.browser.task import BrowserGoal
from trajmill.stages.environments.difference import Outcome
from trajmill.stages.environments.state_api.server import Session, StateApi, States, address_of, new_session
from trajmill.stages.environments.state_api.task import StateGoal, StateStart
from trajmill.stages.environments.tasks import read_part

_ON_PAGE = BrowserGoal()


class _Episode(NamedTuple):
    start: StateStart
    goal: StateGoal
    seed: int
    session: Session
    witness: Session
    before: Any
    """State when the page had loaded; None if the application writes it only before the first change."""


class StateSnapshot(NamedTuple):
    start: StateStart
    goal: StateGoal
    seed: int
    states: States
    place: PagePlace


class StateApiEnvironment:
    """One session of the application for each episode, shown in one context of a shared browser."""

    name = "state_api"

    def __init__(self, factory: StateApiFactory, pages: BrowserEnvironment, api: StateApi) -> None:
        self.platform = pages.platform
        self._factory, self._pages, self._api = factory, pages, api
        self._episode: _Episode | None = None
        self._seen: Observation | None = None

    @property
    def refused(self) -> tuple[str, ...]:
        return self._pages.refused

    async def reset(self, query: Query, seed: int) -> Observation:
        start = read_part(StateStart.model_validate_json, query.start_state, "start state")
        goal = read_part(StateGoal.model_validate_json, query.goal, "goal")
        session = new_session(start.url)
        witness = await self._api.open_witness(session.origin)
        if start.state is not None:
            await self._api.begin(session, start.state)
        self._seen = await self._pages.open(_at(start, start.url, session), _ON_PAGE, seed, session.sid)
        # Only now: many applications add their defaults when their page loads.
        states = await self._api.read(session)
        self._episode = _Episode(start, goal, seed, session, witness, states.current)
        return self._seen

    async def step(self, action: Action) -> Observation:
        self._seen = await self._pages.step(action)
        return self._seen

    async def score(self) -> float | None:
        outcome = await self._outcome()
        return None if outcome is None else float(outcome.reached)

    async def side_effects(self) -> tuple[str, ...] | None:
        outcome = await self._outcome()
        return None if outcome is None else outcome.beyond

    async def snapshot(self) -> StateSnapshot | None:
        """Copy the session and the place of its page; None if a page loaded there differs in elements or state."""
        episode, place, states = begun(self._episode), await self._pages.place(), await self.states()
        if place is None or new_session(place.url).origin != episode.session.origin:
            return None
        if self._seen is None or not all(isinstance(each, dict) for each in states):
            return None
        copied = StateSnapshot(episode.start, episode.goal, episode.seed, states, place)
        twin = await self._factory()
        try:
            same = self._look(await twin.restore(copied)) == self._look(self._seen)
            return copied if same and await twin.states() == states else None
        except EnvironmentFailure:
            return None
        finally:
            await twin.close()

    async def restore(self, snapshot: object) -> Observation:
        if not isinstance(snapshot, StateSnapshot):
            raise EnvironmentFailure("this is no snapshot of a session", FailureClass.SETUP)
        start, states, place = snapshot.start, snapshot.states, snapshot.place
        session = new_session(start.url)
        witness = await self._api.open_witness(session.origin)
        await self._api.begin(session, states.initial, states.current)
        # Other random numbers than at the start, so that new ids do not repeat those of the copied state.
        there, seed = _at(start, place.url, session), snapshot.seed + place.now_ms
        self._seen = await self._pages.open(there, _ON_PAGE, seed, session.sid, place.now_ms)
        self._episode = _Episode(start, snapshot.goal, snapshot.seed, session, witness, states.initial)
        return self._seen

    async def close(self) -> None:
        await self._pages.close()
        await self._api.close()

    async def _outcome(self) -> Outcome | None:
        goal, states = begun(self._episode).goal, await self.states()
        return goal.outcome(*states) if goal.changes else None

    async def states(self) -> States:
        episode = begun(self._episode)
        states = await self._api.read(episode.session)
        lost = episode.before is not None and states.current is None
        if lost or not await self._api.has_witness(episode.witness):
            raise EnvironmentFailure(f"{episode.session.origin} has lost the session of the episode")
        return States(states.initial if episode.before is None else episode.before, states.current)

    def _look(self, seen: Observation) -> str:
        return look_of(seen.screen.screen_id, seen.elements, seen.screen.size, self.platform is Platform.PHONE)


def _at(start: StateStart, url: str, session: Session) -> StateStart:
    return start.model_copy(update={"url": address_of(url, session.sid)})


class StateApiFactory:
    def __init__(
        self, platform: Platform = Platform.WEB, timeouts: PageTimeouts = PageTimeouts(), waits: Patience = Patience()
    ) -> None:
        self._pages, self._patience = BrowserFactory(platform, timeouts, waits), waits

    async def __call__(self) -> StateApiEnvironment:
        return StateApiEnvironment(self, await self._pages(), StateApi(self._patience))

    async def close(self) -> None:
        await self._pages.close()
