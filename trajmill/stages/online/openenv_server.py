"""Serves episodes to trainers by the OpenEnv protocol."""

from __future__ import annotations

import asyncio
import hmac
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.openenv.wire import WireAction, WireMessage, WireScreen, WireTask, to_screen
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.online.host import EndedEpisode, EpisodeHost, EpisodeOrder, ShownStep, SteppedEpisode
from trajmill.stages.parts import first_mistake

# OpenEnv works without Gradio, whose import takes four seconds; its web page is not served.
_GRADIO = sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]
try:
    from openenv.core.env_server import Action, ConcurrencyConfig, Environment, State, create_fastapi_app
    from openenv.core.env_server import Observation as OpenEnvObservation
    from openenv.core.env_server.types import EnvironmentMetadata
finally:
    if _GRADIO is None:
        del sys.modules["gradio"]

NAME = "trajmill"
"""The environment's name in OpenEnv's task routes."""
_OPEN_PATHS = frozenset({"/health"})
_POLICY_VIOLATION, _GOING_AWAY = 1008, 1001
_FIRST_MESSAGE_SECONDS = 60.0


class GuiAction(Action, WireAction): ...  # type: ignore[misc]


class GuiObservation(OpenEnvObservation, WireScreen): ...  # type: ignore[misc]


class GuiState(State):  # type: ignore[misc]
    query_id: str = ""
    void: bool = False


class GuiSession(Environment):  # type: ignore[misc]
    """The session of one client; its episodes run in the host's event loop."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, host: EpisodeHost, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._host = host
        self._loop = loop
        self._episode: SteppedEpisode | None = None
        self._state = GuiState()

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **order: Any) -> GuiObservation:
        """Begin an episode; an earlier running one becomes void. Equal seeds give equal episodes.

        `order` may have the fields of `EpisodeOrder`. Raises BadInputError if no such query is served, or an argument
        is wrong, and EnvironmentFailure if no environment reached the start state.
        """
        if self._episode is not None:
            self._episode.leave("the trainer began another episode before the end of this one")
            if self._episode.work is not None:
                await asyncio.wait({self._episode.work})
        try:
            asked = EpisodeOrder.model_validate({"seed": seed, **order})
        except ValidationError as error:
            raise BadInputError(first_mistake(error, "the arguments")) from None
        self._episode, first = await self._host.begin(asked)
        query = self._episode.attempt.query
        self._state = GuiState(episode_id=episode_id, query_id=query.query_id)
        return await self._shown(self._episode, first)

    async def step_async(self, action: GuiAction, timeout_s: float | None = None, **_: Any) -> GuiObservation:
        """Do one step. The last one gives the reward; a void episode has none.

        Raises BadInputError if no episode is running, or the action has none or several of its fields.
        """
        episode = self._episode
        if episode is None or episode.over:
            raise BadInputError("no episode is under way; reset first")
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
        raise NotImplementedError

    def step(self, action: GuiAction, timeout_s: float | None = None, **_: Any) -> GuiObservation:
        raise NotImplementedError

    @property
    def state(self) -> GuiState:
        return self._state

    def close(self) -> None:
        """End a running episode as void; called in another thread when the client is gone."""
        episode, self._episode = self._episode, None
        if episode is not None:
            self._loop.call_soon_threadsafe(episode.leave, "the trainer went away before the end of the episode")

    def get_metadata(self) -> EnvironmentMetadata:
        family = self._host.settings.family.name
        counts = ", ".join(f"{len(queries):,} of {split}" for split, queries in self._host.queries.by_split.items())
        return EnvironmentMetadata(
            name="trajmill",
            description=f"GUI tasks: {counts}; prompts and replies of the family {family}",
            version=self._host.settings.origin.code_version,
        )

    def list_splits(self) -> list[str]:
        return [split.value for split in self._host.queries.by_split]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [_task(query) for query in self._of(split)]

    def num_tasks(self, split: str) -> int:
        return len(self._of(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One query of a split. Raises IndexError for a wrong index."""
        return _task(self._of(split)[index])

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return [_task(query) for query in self._of(split)[start:stop]]

    def _of(self, split: str) -> Sequence[Query]:
        return self._host.queries.by_split[Split(split)] if split in self.list_splits() else []

    async def _shown(self, episode: SteppedEpisode, shown: ShownStep) -> GuiObservation:
        screen = to_screen(shown.observation, await episode.picture(shown.observation))
        messages = [_message(message) for message in shown.messages]
        update = {"step_index": shown.steps, "messages": messages, "error": shown.error}
        return _observation(episode.attempt.query, screen.model_copy(update=update))

    async def _ended(self, episode: SteppedEpisode, ended: EndedEpisode) -> GuiObservation:
        last = ended.last
        screen = WireScreen(screenshot="") if last is None else to_screen(last, await episode.picture(last))
        steps = ended.attempt.episode.trajectory.steps
        update = {"step_index": steps, "error": ended.failure, "void": bool(ended.failure)}
        return _observation(episode.attempt.query, screen.model_copy(update=update), True, ended.reward)


def _observation(query: Query, screen: WireScreen, done: bool = False, reward: float | None = None) -> GuiObservation:
    place = query.model_dump(mode="json", include={"query_id", "instruction", "platform", "max_steps"})
    return GuiObservation.model_construct(**dict(screen) | place, done=done, reward=reward, metadata={})


def _message(message: ChatMessage) -> WireMessage:
    text = "".join(part for part in message.parts if isinstance(part, str))
    screens = [part.screen.screen_id for part in message.parts if isinstance(part, Observation)]
    return WireMessage(role=message.role, text=text, screen_id=screens[0] if screens else None)


def _task(query: Query) -> dict[str, Any]:
    """What a client may know of a query: no start state, goal, path or slots."""
    known = query.model_dump(mode="json", include=set(WireTask.model_fields) - {"goal_id"})
    return WireTask(**known, goal_id=query.goal_key()).model_dump()


def environment_app(
    host: EpisodeHost, sessions: int, token: str = "", trouble: Callable[[], str] = lambda: ""
) -> ASGIApp:
    """Make the app that serves a host's episodes to at most `sessions` clients; call it in its own event loop.

    Clients send the token, if any, as `Authorization: Bearer TOKEN`. `trouble` returns why episodes do not reach the
    tables, for `/health`; empty if they do.
    """
    idle = host.settings.idle_seconds
    make_session = partial(GuiSession, host, asyncio.get_running_loop())
    # For sessions without a socket: the guard ends silent sockets earlier, and a slow step is no silence.
    limits = ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=2 * idle)
    options = {"concurrency_config": limits, "env_name": NAME, "state_cls": GuiState, "mode": "simulation"}
    app = create_fastapi_app(make_session, GuiAction, GuiObservation, **options)
    # The host ends a silent episode with its reason; its session ends a little later.
    return Guard(app, token, 1.1 * idle, trouble)


class Guard:
    """Refuses clients without the token, and pages of other sites in a browser on this machine; ends silent sockets."""

    def __init__(self, app: ASGIApp, token: str, idle_seconds: float, trouble: Callable[[], str]) -> None:
        self._app = app
        self._token = token
        self._idle_seconds = idle_seconds
        self._trouble = trouble

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._lets_in(scope):
            refusal: Any = PlainTextResponse("a token is needed: Authorization: Bearer TOKEN\n", status_code=401)
            if scope["type"] == "websocket":
                refusal = WebSocketClose(_POLICY_VIOLATION)
            await refusal(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/health" and self._trouble():
            # Whoever asks here may have no token: the reason is in the log and in `trajmill status`.
            unhealthy = JSONResponse({"status": "unhealthy", "reason": "episodes are not committed"}, status_code=503)
            await unhealthy(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, self._impatient(receive, send), send)
        else:
            await self._app(scope, receive, send)

    def _impatient(self, receive: Receive, send: Send) -> Receive:
        """Receive the messages of a socket; one that is silent for too long is closed, so that its session ends."""
        waits = iter((self._idle_seconds, min(_FIRST_MESSAGE_SECONDS, self._idle_seconds)))

        async def next_message() -> Message:
            # The first message is the connection itself.
            try:
                return await asyncio.wait_for(receive(), next(waits, self._idle_seconds))
            except TimeoutError:
                await send({"type": "websocket.close", "code": _GOING_AWAY, "reason": "silent for too long"})
                return {"type": "websocket.disconnect", "code": _GOING_AWAY}

        return next_message

    def _lets_in(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
        if not self._token or scope["path"] in _OPEN_PATHS:
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self._token.encode())
