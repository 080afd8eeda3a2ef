from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.flows.runs import changed, do, small_config, up_to
from tests.stages.derive.samples import query
from trajmill.flows.deriving import derive_in_round
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.judge import BRANCHES, JUDGE_GUIDED
from trajmill.flows.tasks.release import DERIVE, DERIVE_RL
from trajmill.flows.tasks.rollout import shares
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.environments.kinds import GeneratedAppsSpec, SimulatedSpec


def test_generated_apps_take_no_episodes_from_the_others() -> None:
    environment = SimulatedSpec(generated_apps=GeneratedAppsSpec(count=2, per_round=1))
    first, resting = environment.navigation_graph().generated
    apps = {**{f"own-{number}": "notes" for number in range(10)}, "a": first, "b": first, "c": resting}
    queries = {name: query(name).model_copy(update={"apps": (app,)}) for name, app in apps.items()}
    config = SimpleNamespace(environment=environment)
    context = cast(RoundContext, SimpleNamespace(queries=queries, config=config, round=1))
    own, more = shares(context, 100)
    assert (len(own.queries), own.episodes) == (10, 100)
    assert ([each.apps for each in more.queries], more.episodes) == ([(first,)] * 2, 20)
    config.environment = SimulatedSpec()
    own, more = shares(context, 100)
    assert (len(own.queries), own.episodes, more.episodes) == (13, 100, 0)


@pytest.mark.slow
def test_branches_go_on_from_failed_attempts_within_the_episodes_of_the_round(tmp_path: Path) -> None:
    # Large enough for a screen from which some branches succeed and others fail.
    rollout = {"episodes_per_round": 60, "branches": 3, "branch_share": 0.4}
    updated: dict[str, object] = {"run": {"seed": 6}, "queries": {"train": 24}, "guidance": {"enabled": False}}
    context = RoundContext.of(changed(small_config(tmp_path, rounds=1), rollout=rollout, **updated))
    made = up_to(BRANCHES, context)
    do(JUDGE_GUIDED, context)
    do(DERIVE, context)
    do(DERIVE_RL, context)
    attempts = {row.trajectory_id: row for row in context.rows(Trajectory, [1])}
    judged = {row.trajectory_id: row.correct for row in context.rows(Judgement, [1])}
    steps: dict[str, list[Step]] = {}
    for step in sorted(context.rows(Step, [1]), key=lambda step: step.index):
        steps.setdefault(step.trajectory_id, []).append(step)
    branches = [row for row in attempts.values() if row.purpose is Purpose.BRANCH]
    first = [row for row in attempts.values() if row.purpose is Purpose.TRAIN]
    assert len(first) == 36 and made.count.rows_in == len(branches) and 0 < len(branches) <= 24
    assert set(Counter(row.parent_id for row in branches).values()) == {3}
    solved = {row.query_id for row in first if judged.get(row.trajectory_id)}
    for row in branches:
        parent, at = attempts[row.parent_id or ""], row.branched_at or 0
        assert parent.query_id == row.query_id not in solved and at > 0
        same = [(step.screen_before, step.action, step.raw_response) for step in steps[parent.trajectory_id][:at]]
        assert [(step.screen_before, step.action, step.raw_response) for step in steps[row.trajectory_id][:at]] == same
        assert row.reward is not None and row.trajectory_id in judged
    accepted = {row.trajectory_id for row in branches if judged[row.trajectory_id]}
    taught = {row.trajectory_id for row in context.rows(Example, [1])}
    assert taught & {row.trajectory_id for row in branches} == accepted
    compared = [row for row in context.rows(RLStep, [1]) if attempts[row.trajectory_id] in branches]
    assert compared and all(row.branch and row.step_index >= int(row.branch.partition("@")[2]) for row in compared)
    # The outcomes of branches label the step that led to their screen, and their own steps.
    derive_in_round(context, "prm")
    points = {name: row.branched_at or 0 for row in branches for name in (row.trajectory_id, row.parent_id)}
    labelled = [row for row in context.rows(Example, [1]) if row.written_by == "branches"]
    assert {attempts[row.trajectory_id].purpose for row in labelled} == {Purpose.TRAIN, Purpose.BRANCH}
    assert all((row.step_index or 0) >= points[row.trajectory_id] - 1 for row in labelled)
    screens = [row.screen_id for row in context.rows(Screen, [1])]
    assert len(screens) == len(set(screens))
