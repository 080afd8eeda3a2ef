"""One session of an OpenEnv server: the episodes of one client, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from openenv.core.env_server import Action, Environment, State
from openenv.core.env_server import Observation as OpenEnvObservation
from openenv.core.env_server.types import EnvironmentMetadata

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation
from trajmill.schemas.storable import storable
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.openenv.wire import WireAction, WireMessage, WireScreen, WireTask, to_screen
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.online.base import AGENT, EndedEpisode, EpisodeOrder, ShownStep
from trajmill.stages.online.host import EpisodeHost, SteppedEpisode

_NO_EPISODE = "no episode is under way; reset first"
_LEFT = "the trainer went away before the end of the episode"
_ANOTHER = "the trainer began another episode before the end of this one"


class GuiAction(Action, WireAction):  # type: ignore[misc]
    """A step of a GUI agent: a model's reply, a typed action, or the end."""


class GuiObservation(OpenEnvObservation, WireScreen):  # type: ignore[misc]
    """The observation of a GUI agent."""


class GuiState(State):  # type: ignore[misc]
    """The state of a session."""

    query_id: str = ""
    void: bool = False


class GuiSession(Environment):  # type: ignore[misc]
    """The session of one client; its episodes run in the host's event loop."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, host: EpisodeHost, loop: asyncio.AbstractEventLoop) -> None:
        """Use no environment before the first reset."""
        super().__init__()
        self._host = host
        self._loop = loop
        self._episode: SteppedEpisode | None = None
        self._state = GuiState()

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **order: Any) -> GuiObservation:
        """Begin an episode; an earlier running one becomes void.

        Args:
            seed: seed of the episode; equal seeds give equal episodes.
            episode_id: returned in the state.
            order: `query_id`, `policy` and `record`, see `EpisodeOrder`.

        Raises:
            BadInputError: no such query is served, or an argument is wrong.
            EnvironmentFailure: no environment reached the start state.
        """
        if self._episode is not None:
            await self._leave(self._episode, _ANOTHER)
        asked = _order(seed, order)
        self._episode, first = await self._host.begin(asked)
        query = self._episode.attempt.query
        self._state = GuiState(episode_id=episode_id, query_id=query.query_id)
        return await self._shown(self._episode, first)

    async def step_async(self, action: GuiAction, timeout_s: float | None = None, **_: Any) -> GuiObservation:
        """Do one step. The last one gives the reward; a void episode has none.

        Raises:
            BadInputError: there is no running episode, or the action has none or several of its fields.
        """
        episode = self._episode
        if episode is None or episode.over:
            raise BadInputError(_NO_EPISODE)
        said = [action.reply is not None, action.action is not None, action.stop]
        if sum(said) != 1:
            raise BadInputError("a step is one of reply, action and stop")
        come = await episode.step(WireAction(**action.model_dump(exclude={"metadata"})))
        self._state.step_count += not action.stop
        if isinstance(come, ShownStep):
            return await self._shown(episode, come)
        self._state.void = bool(come.failure)
        return await self._ended(episode, come)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **order: Any) -> GuiObservation:
        """Not supported; the server calls `reset_async`."""
        raise NotImplementedError

    def step(self, action: GuiAction, timeout_s: float | None = None, **_: Any) -> GuiObservation:
        """Not supported; the server calls `step_async`."""
        raise NotImplementedError

    @property
    def state(self) -> GuiState:
        """The state of the session."""
        return self._state

    def close(self) -> None:
        """End a running episode as void; called in another thread when the client is gone."""
        episode, self._episode = self._episode, None
        if episode is not None:
            self._loop.call_soon_threadsafe(episode.leave, _LEFT)

    def get_metadata(self) -> EnvironmentMetadata:
        """A description of the environment."""
        family = self._host.settings.family.name
        counts = ", ".join(f"{len(queries):,} of {split}" for split, queries in self._host.queries.by_split.items())
        return EnvironmentMetadata(
            name="trajmill",
            description=f"GUI tasks: {counts}; prompts and replies of the family {family}",
            version=self._host.settings.origin.code_version,
        )

    def list_splits(self) -> list[str]:
        """The splits that are served."""
        return [split.value for split in self._host.queries.by_split]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The queries of a split."""
        return [_task(query) for query in self._of(split)]

    def num_tasks(self, split: str) -> int:
        """Number of queries of a split."""
        return len(self._of(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One query of a split. Raises IndexError for a wrong index."""
        return _task(self._of(split)[index])

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Some queries of a split."""
        return [_task(query) for query in self._of(split)[start:stop]]

    def _of(self, split: str) -> Sequence[Query]:
        return self._host.queries.by_split[Split(split)] if split in self.list_splits() else []

    async def _leave(self, episode: SteppedEpisode, reason: str) -> None:
        episode.leave(reason)
        if episode.work is not None:
            await asyncio.wait({episode.work})

    async def _shown(self, episode: SteppedEpisode, shown: ShownStep) -> GuiObservation:
        screen = to_screen(shown.observation, await episode.picture(shown.observation))
        return _observation(
            episode.attempt.query,
            screen.model_copy(
                update={
                    "step_index": shown.steps,
                    "messages": [_message(message) for message in shown.messages],
                    "error": shown.error,
                }
            ),
        )

    async def _ended(self, episode: SteppedEpisode, ended: EndedEpisode) -> GuiObservation:
        last = ended.last
        screen = WireScreen(screenshot="") if last is None else to_screen(last, await episode.picture(last))
        steps = ended.attempt.episode.trajectory.steps
        update = {"step_index": steps, "error": ended.failure, "void": bool(ended.failure)}
        return _observation(episode.attempt.query, screen.model_copy(update=update), True, ended.reward)


def _order(seed: int | None, order: dict[str, Any]) -> EpisodeOrder:
    query_id, policy, record = order.get("query_id"), order.get("policy", AGENT), order.get("record", True)
    if query_id is not None and not isinstance(query_id, str):
        raise BadInputError("query_id: a text is expected")
    if not isinstance(policy, str) or not 0 < len(policy) <= 200 or storable(policy) != policy:
        raise BadInputError("policy: a text of at most 200 characters that UTF-8 can store is expected")
    if not isinstance(record, bool):
        raise BadInputError("record: true or false is expected")
    if seed is not None and not (isinstance(seed, int) and 0 <= seed < 2**62):
        raise BadInputError("seed: a whole number from 0 to 2^62 is expected")
    return EpisodeOrder(query_id, seed, policy, record)


def _observation(query: Query, screen: WireScreen, done: bool = False, reward: float | None = None) -> GuiObservation:
    place = {
        "query_id": query.query_id,
        "instruction": query.instruction,
        "platform": query.platform.value,
        "max_steps": query.max_steps,
    }
    return GuiObservation.model_construct(**dict(screen) | place, done=done, reward=reward, metadata={})


def _message(message: ChatMessage) -> WireMessage:
    text = "".join(part for part in message.parts if isinstance(part, str))
    screens = [part.screen.screen_id for part in message.parts if isinstance(part, Observation)]
    return WireMessage(role=message.role, text=text, screen_id=screens[0] if screens else None)


def _task(query: Query) -> dict[str, Any]:
    """What a client may know of a query: no start state, goal, path or slots."""
    known = query.model_dump(mode="json", include=set(WireTask.model_fields) - {"goal_id"})
    return WireTask(**known, goal_id=query.goal_key()).model_dump()
