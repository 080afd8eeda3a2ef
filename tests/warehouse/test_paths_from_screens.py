"""A path that is written from what the table of screens says about the screens of an attempt."""

from __future__ import annotations

import asyncio

from tests.stages.queries.samples import drafted
from tests.warehouse.samples import stage_run
from trajmill.schemas.actions import Click, action_from_json
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode
from trajmill.warehouse.commit import commit
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staged_screens import NewScreens, ScreenJournal, journal_path

ORIGIN = Origin(round=0, run_id="test", code_version="test")


def walked(query: Query) -> FinishedAttempt:
    async def attempt() -> FinishedAttempt:
        phone = await SimulatedSpec(faults=FaultRates(popup=0)).factory(query.platform)()
        return await run_episode(
            Attempt(query, Purpose.REFERENCE, 0, 3), ReferenceAgent(query), phone, Limits(), ORIGIN
        )

    return asyncio.run(attempt())


def test_a_path_can_be_written_from_the_element_ids_of_the_stored_screens(warehouse: Warehouse) -> None:
    sample = samples_by_task(graph_of_app(shared_world(()).apps["notes"]), 0)["notes.edit-set-folder-set-pinned"][0]
    query = drafted(RouteGoal(sample), ORIGIN, 3)
    done = walked(query)
    journal = ScreenJournal(journal_path(warehouse, stage_run(), "00000"))
    for seen in done.screens.values():
        journal.append(seen)
    journal.close()
    commit(warehouse, "screens", NewScreens(warehouse, stage_run(), ORIGIN, "test").write(), stage_run())
    stored = {row["screen_id"]: row["elements"] for row in read_table(warehouse, "screens").to_pylist()}

    presses = [
        (step.screen_before, action)
        for step in done.episode.steps
        if isinstance(action := action_from_json(step.action or ""), Click)
    ]
    names = [
        min(
            (right - left, each["element_id"])
            for each in stored[screen]
            for left, top, right, bottom in [each["bounds"]]
            if each["element_id"] and left <= press.x < right and top <= press.y < bottom
        )[1]
        for screen, press in presses
    ]
    written = [PathStep(page="", operation="tap", target=name) for name in names]
    again = query.model_copy(update={"path": (*written, PathStep(page="", operation="finish", target=""))})
    assert len(names) >= 4
    assert walked(again).episode.trajectory.reward == done.episode.trajectory.reward == 1.0
