"""Writes and parses the messages between a client and an OpenEnv server."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.stages.environments.openenv.wire import WireAction, WireScreen

BUSY = "CAPACITY_REACHED"
STATE = '{"type": "state"}'
"""Asks for the state of the session; a server answers only if it has room for the session."""
_LONGEST_ERROR = 500


class ServerBusy(EnvironmentFailure):
    """All sessions of a server are in use."""


class EpisodeAnswer(NamedTuple):
    """The answer of a server to a reset or a step."""

    screen: WireScreen
    reward: float | None
    done: bool


def reset_message(query_id: str | None, seed: int | None, **order: Any) -> str:
    """The message of a reset; fields that are None are left out."""
    data = {name: value for name, value in {"query_id": query_id, "seed": seed, **order}.items() if value is not None}
    return json.dumps({"type": "reset", "data": data})


def step_message(action: WireAction) -> str:
    """The message of a step; unset fields are left out, so that servers with fewer fields understand it."""
    return json.dumps({"type": "step", "data": action.model_dump(exclude_defaults=True)})


def read_answer(raw: str | bytes, where: str) -> EpisodeAnswer:
    """Parse an observation.

    Args:
        raw: the message.
        where: the server, for errors.

    Raises:
        ServerBusy: the server has no room.
        EnvironmentFailure: the server reports a failure, or its message is no observation.
    """
    data = read_data(raw, where)
    try:
        screen = WireScreen.model_validate(data.get("observation"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(map(str, first["loc"])) or "the whole"
        raise EnvironmentFailure(f"{where} sent no observation of a GUI: {key}: {first['msg']}") from error
    return EpisodeAnswer(screen, _reward(data.get("reward"), where), data.get("done") is True)


def read_data(raw: str | bytes, where: str) -> dict[str, Any]:
    """Parse the data of any message that is no error.

    Raises:
        ServerBusy: the server has no room.
        EnvironmentFailure: the server reports a failure, or the message does not follow the protocol.
    """
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EnvironmentFailure(f"{where} sent no JSON") from error
    data = message.get("data") if isinstance(message, dict) else None
    if not isinstance(data, dict):
        raise EnvironmentFailure(f"{where} sent a message without data")
    if message.get("type") == "error":
        text = " ".join(str(data.get("message", "an error without a message")).split())[:_LONGEST_ERROR]
        raise (ServerBusy if data.get("code") == BUSY else EnvironmentFailure)(f"{where}: {text}")
    return data


def session_address(url: str) -> str:
    """The address of a server's WebSocket."""
    scheme, _, rest = url.rstrip("/").partition("://")
    if not rest or scheme not in ("http", "https", "ws", "wss"):
        raise BadInputError(f"{url!r:.100} is no address of an environment server; write http://HOST:PORT")
    return f"{'wss' if scheme in ('https', 'wss') else 'ws'}://{rest}/ws"


def token_headers(token: str) -> dict[str, str]:
    """The headers for a server with a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _reward(value: object, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"{where} sent a reward that is no number")
    return float(value)
