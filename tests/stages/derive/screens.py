"""Stored screens in memory."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from tests.stages.derive.samples import ORIGIN, size_of
from tests.stages.models.fault_server import running_server
from tests.stages.models.openai_api.asking import settings
from tests.stages.models.pictures import as_png
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenReader, UIElement
from trajmill.stages.derive.collected import DerivedRows, Maker
from trajmill.stages.derive.kind_spec import KindSpec, TaskSources, Tools
from trajmill.stages.derive.spec import DerivePromptFiles
from trajmill.stages.models.base import ChatModel


@dataclass
class DrawnScreens:
    trees: Mapping[str, tuple[UIElement, ...]]
    colours: Mapping[str, str] = field(default_factory=dict)
    """By text of the element; white without one."""
    kept: list[Observation] = field(default_factory=list)
    """Screens that a deriver has made."""

    def image(self, screen_id: str) -> bytes:
        drawn = Image.new("RGB", self.size(screen_id), "white")
        for element in self.trees[screen_id]:
            self.draw(element, ImageDraw.Draw(drawn))
        return as_png(drawn)

    def draw(self, element: UIElement, pen: ImageDraw.ImageDraw) -> None:
        left, top, right, bottom = element.bounds
        pen.rectangle((left, top, right - 1, bottom - 1), fill=self.colours.get(element.text, "white"))

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.trees[screen_id]

    def size(self, screen_id: str) -> Size:
        return size_of(screen_id)


def blank_screens() -> DrawnScreens:
    """White screens without elements, as large as those of the sample episodes."""
    return DrawnScreens(defaultdict(tuple))


class WrittenScreens(DrawnScreens):
    """Screens whose elements are written in black on white, large enough to be read."""

    def draw(self, element: UIElement, pen: ImageDraw.ImageDraw) -> None:
        left, top, *_ = element.bounds
        pen.text((left + 20, top + 16), element.text, "black", ImageFont.load_default(40))


def tools_of(
    spec: KindSpec,
    screens: ScreenReader | None = None,
    writer: ChatModel | None = None,
    describer: ChatModel | None = None,
    of_tasks: TaskSources | None = None,
) -> Tools:
    keep = screens.kept.append if isinstance(screens, DrawnScreens) else lambda _: None
    maker, prompts = Maker(spec.name, "test", ORIGIN), DerivePromptFiles().load()
    return Tools(maker, screens or blank_screens(), keep, prompts, writer, describer, of_tasks=of_tasks)


def derived(
    spec: KindSpec, given: Episode, tools: Tools | None = None, only: frozenset[int] | None = None
) -> DerivedRows:
    return asyncio.run(spec.open(tools or tools_of(spec)).derive(given, only))


def kept(rows: DerivedRows) -> list[tuple[int | None, str | None]]:
    return [(row.step_index, row.variant) for row in rows.examples]


def refused(rows: DerivedRows) -> list[tuple[int | None, str]]:
    return [(row.step_index, row.reason) for row in rows.refusals]


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

    async def derive(url: str) -> DerivedRows:
        model = settings(url).connect({})
        try:
            tools = tools_of(spec, screens, model if writer else None, model, of_tasks)
            return await spec.open(tools).derive(episode, None)
        finally:
            await model.close()

    with running_server() as server:
        server.writes_samples = lambda body: [answer(body) for _ in range(body.get("n", 1))]
        rows = asyncio.run(derive(server.url))
    return rows, [received.body for received in server.received]


def words(body: Body) -> str:
    contents = [message["content"] for message in body["messages"]]
    return "\n".join(
        content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        for content in contents
    )
