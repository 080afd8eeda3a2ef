"""A judge stage whose critics are models behind a real server, one that fails now and then."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.flows.served_judge import opinion
from tests.flows.small_run import small_config, up_to
from tests.stages.models.fault_server import Fault, running_server
from trajmill.flows.configuration.config import Config, JudgeSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.judge import JUDGE
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


def served(root: Path, url: str) -> Config:
    base = small_config(root)
    return base.model_copy(
        update={
            "rollout": base.rollout.model_copy(update={"episodes_per_round": 16}),
            "judge": JudgeSection(votes=2, quorum=2, tries=1, resolutions=(0.25, 0.5), concurrency=4),
            "endpoints": {"tiny": OpenAiSpec(model="tiny", urls=(url,), attempts=1, cache=False)},
            "models": ModelsSection(critic=CriticRoles(step="tiny", text=("tiny",), multimodal=("tiny",))),
        }
    )


def test_every_trajectory_is_judged_or_a_failure_and_every_call_is_a_row(tmp_path: Path) -> None:
    with running_server([Fault.INTERNAL, Fault.NONE] * 4, writes=opinion) as server:
        context = RoundContext.of(served(tmp_path, server.url))
        count = up_to(JUDGE, context).count
        sent = len(server.received)
    warehouse = context.warehouse
    finished = {
        row.trajectory_id
        for row in read_rows(warehouse, Trajectory)
        if row.purpose is Purpose.TRAIN and row.status == "finished"
    }
    judged = {row.trajectory_id: row for row in read_rows(warehouse, Judgement)}
    failed = [row.input_id for row in read_rows(warehouse, Failure) if row.stage == "judge"]
    assert failed and judged and sorted([*judged, *failed]) == sorted(finished)
    assert (count.rows_in, count.rows_out) == (len(finished), len(judged))
    assert all(row.correct for row in judged.values())
    assert {row.rule for row in judged.values()} == {"consensus(text:2of2,multimodal:0.25:2of2>0.5:2of2)"}

    votes = read_rows(warehouse, TrajectoryVerdict)
    assert Counter((row.channel, row.resolution, row.vote) for row in votes) == dict.fromkeys(
        [("text", "full", 0), ("text", "full", 1)]
        + [("multimodal", at, number) for at, number in (("0.25", 0), ("0.25", 1), ("0.5", 2), ("0.5", 3))],
        len(judged),
    )
    assert {row.trajectory_id for row in read_rows(warehouse, StepVerdict)} == set(judged)

    calls = [row for row in read_rows(warehouse, ModelCall) if row.role.startswith("critic.")]
    assert len(calls) == sent and len({call.call_id for call in calls}) == sent
    assert sum(call.error is not None for call in calls) == 4
    assert {call.trajectory_id for call in calls if call.error} <= finished
    looked = [call for call in calls if call.role == "critic.multimodal" and call.error is None]
    assert sum(len(call.draws or ()) for call in looked) >= 4 * len(judged) > len(looked), "votes share a request"
