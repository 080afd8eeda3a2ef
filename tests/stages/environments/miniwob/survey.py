"""Surveys which MiniWoB++ pages work: `python -m tests.stages.environments.miniwob.survey` writes `pages.json`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from playwright.async_api import Error

from trajmill.schemas.actions import Click, Drag
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.miniwob.environment import MiniWobEnvironment, MiniWobFactory, PageTask
from trajmill.stages.environments.miniwob.pages import PageReport, page_names

_SEED, _OTHER_SEED = 1, 2
_PRESSES = 4


class _FirstScreen(NamedTuple):
    task: PageTask
    observation: Observation


async def survey(pages: Sequence[str]) -> list[PageReport]:
    """Try each page at two seeds, in a used browser context and in a fresh one."""
    factory = MiniWobFactory()
    try:
        played_in, other = await factory(), await factory()
        return [await _report(page, played_in, other) for page in pages]
    finally:
        await factory.close()


async def _report(page: str, played_in: MiniWobEnvironment, other: MiniWobEnvironment) -> PageReport:
    try:
        first = await _start(played_in, page, _SEED)
        pressable = [element for element in first.observation.elements or () if element.clickable]
        for element in [*pressable[:_PRESSES], *pressable[-1:]]:
            x, y = element.bounds.center
            await played_in.step(Click(x=x, y=y))
        width, height = first.observation.screen.size
        await played_in.step(Drag(x=width // 2, y=height // 2, x2=width * 3 // 4, y2=height * 3 // 4))
        decided = played_in.decided
        again, beside = await _start(played_in, page, _SEED), await _start(other, page, _SEED)
        varied = await _start(other, page, _OTHER_SEED)
    except (EnvironmentFailure, Error) as error:
        return PageReport(page=page, works=False, reason=str(error).splitlines()[0])
    equal = len({each.observation.screen.screen_id for each in (first, again, beside)}) == 1
    return PageReport(
        page=page,
        works=equal and bool(first.task.instruction),
        reason="" if equal else "equal seeds show different screens",
        varies=varied.observation.screen.screen_id != first.observation.screen.screen_id,
        fields=bool(first.task.fields),
        pressable=len(pressable),
        decided=decided,
    )


async def _start(environment: MiniWobEnvironment, page: str, seed: int) -> _FirstScreen:
    return _FirstScreen(await environment.start(page, seed), await environment.observe())


def main() -> None:
    reports = asyncio.run(survey(page_names()))
    lines = [json.dumps(report.model_dump()) for report in reports]
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
