"""Pathways of a real program on a real X server."""

import os

import pytest

from tests.stages.queries.pathways.toy import by_names
from tests.stages.queries.samples import making, walk_all
from trajmill.schemas.record import Origin
from trajmill.stages.environments.desktop.environment import LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants
from trajmill.stages.environments.desktop.task import packaged_tasks
from trajmill.stages.queries.pathways.programs import WalkBounds, packaged_programs, read_programs
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.pathways.source import PathwaySource

pytestmark = pytest.mark.desktop


async def test_a_file_manager_is_walked_with_what_needs_a_selection_and_leaves_no_process(origin: Origin) -> None:
    before, factory = descendants(os.getpid()), LocalDesktops(packaged_tasks())
    (program,) = read_programs(packaged_programs(), ("pcmanfm",))
    try:
        collected = await collect_pathways(factory, program, WalkBounds(breadth=2, depth=1, seconds=240), origin)
        source = PathwaySource(collected.pathways, [program], 1)
        made = await making(source, lambda drafts: walk_all(factory, drafts, origin), origin, seed=1)
    finally:
        await factory.close()
    assert [failure.message for failure in collected.failures] == [] and len(made.queries) == 1
    needs = {name: pathway.needs_selection for name, pathway in by_names(collected.pathways).items()}
    assert needs["Edit > Rename..."] is True and needs["Edit > Cut"] is True
    assert needs["File"] is False
    for step in (step for pathway in collected.pathways for step in pathway.steps):
        size = collected.screens[step.screen_id].screen.size
        assert 0 <= step.bounds.left < step.bounds.right <= size.width
        assert 0 <= step.bounds.top < step.bounds.bottom <= size.height
    assert descendants(os.getpid()) <= before
