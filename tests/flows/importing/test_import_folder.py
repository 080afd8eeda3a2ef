"""Imports become rows like any other: judged by the run's own judge, learned from, never attempted."""

import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest

from tests.flows.runs import changed, do, opinion, up_to
from tests.flows.tasks.test_judge import served
from tests.stages.importing import samples
from tests.stages.models.fault_server import Fault, running_server
from trajmill.flows.configuration.config import Config
from trajmill.flows.importing.import_folder import import_folder
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.page import now_line, working_stage
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.release import DERIVE
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.importing.agentnet import AgentNetLayout
from trajmill.stages.importing.base import ReadRecording, layout_spec
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import progress_of
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


class StoppedLayout(AgentNetLayout):
    """Reads two recordings of each file and no more."""

    kind: Literal["agentnet"] = "agentnet"

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        yield from islice(super().read(file, folder), 2)
        time.sleep(600)


_DEAD = "http://127.0.0.1:9/v1"


def seeing(root: Path, url: str) -> Config:
    """A judge that needs no trees, which this layout does not have."""
    return changed(served(root / "data", url, episodes=8), judge={"channels": ("multimodal",)})


def generated(root: Path, url: str) -> tuple[Config, RoundContext]:
    config = seeing(root, url)
    context = RoundContext.of(config)
    do(GENERATE, context)
    return config, context


def test_a_folder_is_imported_once_judged_and_never_attempted(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net", tasks=3)
    with (tmp_path / "net/agentnet.jsonl").open("a") as file:
        file.write("{\n")
    with running_server([Fault.NONE], writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        held_out = next(query for query in context.queries.values() if query.split is Split.HELDOUT_SLOTS)
        samples.gui_odyssey(tmp_path / "odyssey", "1", held_out.instruction)
        first = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        again = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        leaking = import_folder(config, layout_spec("gui-odyssey"), tmp_path / "odyssey")
    assert (first.round, first.trajectories, first.steps, first.judged, first.accepted) == (1, 3, 12, 3, 3)
    assert [bad.name for bad in first.bad] == ["agentnet.jsonl:4"] and first.accepted_since_training == 3
    assert (again.trajectories, again.known, again.judged, again.accepted_since_training) == (0, 3, 0, 3)
    assert leaking.trajectories == 0 and "held-out" in leaking.bad[0].reason
    stored = read_rows(context.warehouse, Trajectory, run_id=context.run_id)
    assert {row.purpose for row in stored} == {Purpose.IMPORTED} and len(stored) == 3
    screens = WarehouseScreens(context.warehouse)
    assert len(screens) == 4
    steps = read_rows(context.warehouse, Step, run_id=context.run_id)
    assert all(screens.size(step.screen_after).width == 300 for step in steps)
    imported = [row for row in read_rows(context.warehouse, Query) if row.made_by.startswith("import.")]
    assert len(imported) == 3 and not {row.query_id for row in imported} & set(context.queries)
    assert len(read_rows(context.warehouse, Failure, run_id=context.run_id)) == 3


def test_what_no_critic_could_judge_is_judged_with_the_next_round_and_learned_from(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net", tasks=2)
    with running_server([Fault.INTERNAL] * 100, writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        report = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
    assert (report.trajectories, report.judged, report.accepted_since_training) == (2, 0, 0)
    with running_server([Fault.NONE], writes=opinion) as server:
        mended = seeing(tmp_path, server.url)
        assert mended.run_id == config.run_id
        for number, last in ((1, PROMOTE), (2, DERIVE)):
            up_to(last, RoundContext(mended, context.warehouse, number))
    imported = {
        row.trajectory_id for row in read_rows(context.warehouse, Trajectory) if row.purpose is Purpose.IMPORTED
    }
    examples = [row for row in read_rows(context.warehouse, Example) if row.trajectory_id in imported]
    assert {row.trajectory_id for row in examples} == imported and {row.round for row in examples} == {2}
    assert all(json.loads(row.action or "")["kind"] for row in examples)


def test_an_import_that_is_killed_loses_nothing_and_brings_nothing_twice(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net", tasks=5)
    answers = [*[Fault.NONE] * 12, *[Fault.HANG] * 100]
    with running_server(answers, writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        slow = changed(config, judge={"concurrency": 1})
        assert slow.run_id == config.run_id
        with _killed_in(context, "import-0000", slow, StoppedLayout(), tmp_path / "net"):
            assert now_line(working_stage(context)).startswith("round 1, import-0000 since ")
        with _killed_in(context, "judge_import-0000", slow, layout_spec("agentnet"), tmp_path / "net"):
            assert " of 5, " in now_line(working_stage(context))
        assert now_line(working_stage(context)) == "nobody is at work; round 1, baseline is next"
    with running_server([Fault.NONE], writes=opinion) as server:
        again = import_folder(seeing(tmp_path, server.url), layout_spec("agentnet"), tmp_path / "net")
    assert (again.trajectories, again.known, again.accepted_since_training) == (0, 5, 5)
    steps = [(row.trajectory_id, row.index) for row in read_rows(context.warehouse, Step)]
    judged = [row.trajectory_id for row in read_rows(context.warehouse, Judgement)]
    screens = [row.screen_id for row in read_rows(context.warehouse, Screen)]
    trajectories = [row.trajectory_id for row in read_rows(context.warehouse, Trajectory)]
    assert len(steps) == len(set(steps)) == 20 and len(screens) == len(set(screens)) > 0
    assert sorted(judged) == sorted(trajectories) == sorted(set(trajectories)) and len(trajectories) == 5


def test_an_import_into_a_bucket_brings_its_screens(tmp_path: Path, bucket_url: str) -> None:
    samples.agentnet(tmp_path / "net", tasks=1)
    with running_server([Fault.NONE], writes=opinion) as server:
        there = changed(seeing(tmp_path, server.url), run={"root": BucketUrl(bucket_url)})
        context = RoundContext.of(there)
        do(GENERATE, context)
        assert import_folder(there, layout_spec("agentnet"), tmp_path / "net").steps == 4
    shown = {row.screen_after for row in read_rows(context.warehouse, Step)}
    assert shown <= {row.screen_id for row in read_rows(context.warehouse, Screen)} != set()


@contextmanager
def _killed_in(context: RoundContext, stage: str, *imported: object) -> Iterator[None]:
    """Inside, a process has begun the work of a stage of an import; it is killed at the end."""
    process = multiprocessing.get_context("spawn").Process(target=import_folder, args=imported)
    process.start()
    staging = context.at(stage).staging(context.warehouse)
    while not progress_of(staging).done:
        assert process.is_alive()
        time.sleep(0.05)
    yield
    process.kill()
    process.join()


def test_a_run_without_queries_says_what_to_do(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net")
    with pytest.raises(BadInputError, match="run `trajmill generate` first"):
        import_folder(served(tmp_path / "data", _DEAD), layout_spec("agentnet"), tmp_path / "net")
