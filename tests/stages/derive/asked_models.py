"""Derivations whose models stand behind a real server."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.stages.derive.screens import DrawnScreens, tools_of
from tests.stages.models.fault_server import running_server
from tests.stages.models.openai_api.asking import settings
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.kind_spec import KindSpec, TaskSources

OK = UIElement("button", "OK", Box(300, 780, 420, 840), ("clickable",))
Body = dict[str, Any]


def derived_with(
    spec: KindSpec,
    episode: Episode,
    answer: Callable[[Body], str],
    writer: bool = False,
    of_tasks: TaskSources | None = None,
) -> tuple[DerivedRows, list[Body]]:
    """The rows of an episode whose screens show one button, and the requests that the model got."""
    trees = {screen: (OK,) for step in episode.steps for screen in (step.screen_before, step.screen_after)}
    screens = DrawnScreens(trees)
    with running_server() as server:
        server.writes_samples = lambda body: [answer(body) for _ in range(body.get("n", 1))]
        rows = asyncio.run(_derived(spec, episode, screens, server.url, writer, of_tasks))
    return rows, [received.body for received in server.received]


async def _derived(
    spec: KindSpec, episode: Episode, screens: DrawnScreens, url: str, writer: bool, of_tasks: TaskSources | None
) -> DerivedRows:
    model = settings(url).connect({})
    try:
        tools = tools_of(spec, screens, model if writer else None, model, of_tasks)
        return await spec.open(tools).derive(episode, None)
    finally:
        await model.close()


def words(body: Body) -> str:
    contents = [message["content"] for message in body["messages"]]
    return "\n".join(
        content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        for content in contents
    )
