"""Reads the queries of an environment server from its task list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
from pydantic import ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.environments.first_mistake import first_mistake
from trajmill.stages.environments.openenv.answers import token_headers
from trajmill.stages.environments.openenv.wire import WireTask

_MAKER = "openenv"
_SECONDS = 60.0


async def served_queries(servers: Sequence[str], token: str, origin: Origin) -> list[Query]:
    """The queries of the first server that answers; all servers must have the same.

    Raises:
        EnvironmentFailure: no server gives its tasks (class `setup`).
    """
    troubles: list[str] = []
    for url in servers:
        try:
            async with httpx.AsyncClient(
                base_url=url, headers=token_headers(token), timeout=_SECONDS, trust_env=False
            ) as http:
                return [_query(task, split, url, origin) for split, task in await _tasks(http)]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            troubles.append(f"{url}: {' '.join(str(error).split()) or type(error).__name__}")
    advice = "start one with `trajmill env serve`"
    raise EnvironmentFailure(
        f"no environment server tells its tasks: {'; '.join(troubles)}; {advice}", FailureClass.SETUP
    )


async def _tasks(http: httpx.AsyncClient) -> list[tuple[str, Any]]:
    (name,) = (await _asked(http, "GET", "/list_environments"))[:1]
    found = []
    for split in await _asked(http, "GET", f"/{name}/splits"):
        answer = await _asked(http, "POST", f"/{name}/tasks", {"split": split["name"]})
        found += [(split["name"], task) for task in answer["tasks"]]
    return found


async def _asked(http: httpx.AsyncClient, method: str, path: str, body: object = None) -> Any:
    answer = await http.request(method, path, json=body)
    if not answer.is_success:
        raise ValueError(f"{path} answered {answer.status_code}")
    return answer.json()


def _query(task: object, split: str, url: str, origin: Origin) -> Query:
    """The query of a task; what only the server needs to know is missing."""
    try:
        said = WireTask.model_validate(task)
        platform = Platform(said.platform)
    except ValidationError as error:
        raise ValueError(f"a task that cannot be used: {first_mistake(error, 'the task')}") from error
    named = said.split or split
    other = Split.TRAIN if split == Split.TRAIN else Split.HELDOUT_SLOTS
    return Query(
        query_id=said.query_id,
        platform=platform,
        apps=tuple(said.apps),
        source=Source.IMPORTED,
        task=said.task or _MAKER,
        raw_instruction=said.instruction,
        instruction=said.instruction,
        phrasing="imported",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        # No environment reads it: it only tells goals apart, so that none is in two splits.
        start_state=json.dumps({"goal_id": said.goal_id}) if said.goal_id else "{}",
        goal="{}",
        difficulty=said.difficulty,
        max_steps=said.max_steps,
        split=Split(named) if named in set(Split) else other,
        validation="passed",
        **origin.common(made_by=_MAKER),
    )
