"""Surveys which MiniWoB++ pages work: `python -m tests.stages.environments.miniwob.survey` writes `pages.json`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from playwright.async_api import Error

from trajmill.schemas.actions import Click, Drag
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.miniwob.environment import MiniWobEnvironment, MiniWobFactory
from trajmill.stages.environments.miniwob.pages import PageReport, page_names

_SEED, _OTHER_SEED = 1, 2
_PRESSES = 4


async def survey(pages: Sequence[str], factory: MiniWobFactory) -> list[PageReport]:
    """Try each page at two seeds, in a used browser context and in a fresh one."""
    played_in, other = await factory(), await factory()
    reports = [await _report(page, played_in, other) for page in pages]
    await played_in.close()
    await other.close()
    return reports


async def _report(page: str, played_in: MiniWobEnvironment, other: MiniWobEnvironment) -> PageReport:
    try:
        task, first = await played_in.start(page, _SEED), await played_in.observe()
        pressable = [element for element in first.elements or () if element.clickable]
        for element in [*pressable[:_PRESSES], *pressable[-1:]]:
            x, y = element.bounds.center
            await played_in.step(Click(x=x, y=y))
        width, height = first.screen.size
        await played_in.step(Drag(x=width // 2, y=height // 2, x2=width * 3 // 4, y2=height * 3 // 4))
        decided = played_in.decided
        again, beside = await _screen(played_in, page, _SEED), await _screen(other, page, _SEED)
        varied = await _screen(other, page, _OTHER_SEED)
    except (EnvironmentFailure, Error) as error:
        return PageReport(page=page, works=False, reason=str(error).splitlines()[0])
    equal = first.screen.screen_id == again == beside
    return PageReport(
        page=page,
        works=equal and bool(task.instruction),
        reason="" if equal else "equal seeds show different screens",
        varies=varied != again,
        fields=bool(task.fields),
        pressable=len(pressable),
        decided=decided,
    )


async def _screen(environment: MiniWobEnvironment, page: str, seed: int) -> str:
    await environment.start(page, seed)
    return (await environment.observe()).screen.screen_id


async def main() -> None:
    factory = MiniWobFactory()
    lines = [json.dumps(report.model_dump()) for report in await survey(page_names(), factory)]
    await factory.close()
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    asyncio.run(main())
