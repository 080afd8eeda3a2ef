import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.pipelines.online import ONLINE, OnlineRecorder
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode
from trajmill.warehouse.commit import commit
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import NewScreens


async def finished(seed: int) -> FinishedAttempt:
    attempt = Attempt(toy_query(), Purpose.ONLINE, 0, seed)
    agent = ToyAgent(press_and_finish, name="online", model_version="mine")
    return await run_episode(attempt, agent, ToyEnvironment(), Limits(), ORIGIN)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return create_warehouse(tmp_path / "data")


def open_recorder(warehouse: Warehouse) -> OnlineRecorder:
    return OnlineRecorder(warehouse, ORIGIN, "toy")


def seeds(warehouse: Warehouse) -> Counter[int]:
    return Counter(trajectory.seed for trajectory in read_rows(warehouse, Trajectory))


async def record(recorder: OnlineRecorder, *seeds: int) -> None:
    for seed in seeds:
        await recorder.record(await finished(seed))


async def test_a_full_batch_is_committed_by_itself(warehouse: Warehouse) -> None:
    await record(open_recorder(warehouse), *range(65))
    assert seeds(warehouse) == dict.fromkeys(range(64), 1)


@pytest.mark.slow
async def test_in_a_bucket_another_machine_commits_what_a_killed_server_has_left(bucket_url: str) -> None:
    here = create_warehouse(bucket_url)
    await record(open_recorder(here), 1, 2)
    shutil.rmtree(here.root)
    elsewhere = create_warehouse(bucket_url)
    recorder = open_recorder(elsewhere)
    assert seeds(elsewhere) == {1: 1, 2: 1}
    await record(recorder, 3)
    await recorder.commit()
    assert seeds(elsewhere) == {1: 1, 2: 1, 3: 1}


async def test_a_commit_that_was_broken_off_between_two_tables_is_completed(warehouse: Warehouse) -> None:
    await record(open_recorder(warehouse), 1)
    at = StageRun(ORIGIN.run_id, ORIGIN.round, ONLINE)
    commit(warehouse, "screens", NewScreens(warehouse, at, ORIGIN, "toy").write(), at)
    recorder = open_recorder(warehouse)
    assert seeds(warehouse) == {1: 1}
    await record(recorder, 2)
    await recorder.commit()
    assert seeds(warehouse) == {1: 1, 2: 1}
