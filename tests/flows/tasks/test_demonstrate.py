"""Demonstrations stand in for guided attempts, and become training rows that read the screen aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.flows.small_run import small_config, up_to
from trajmill.flows.configuration.config import Config, GuidanceSection
from trajmill.flows.report.figures import TABLES, run_views
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.judge import reference_paths_used
from trajmill.flows.tasks.release import DERIVE_RL, RELEASE
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates, SimulatedSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.views import refresh_views

MARKET = Path(__file__).parents[3] / "docs" / "examples" / "market.yaml"


def demonstrating(root: Path, by: bool | Literal["explorer"] = True) -> Config:
    small = small_config(root, rounds=1)
    market = SimulatedSpec(
        apps=(MARKET,), builtin_apps=(), faults=FaultRates(popup=0.0), devices=DevicesSpec(orders=9, dark=False)
    )
    return small.model_copy(
        update={
            "environment": market,
            "queries": small.queries.model_copy(update={"train": 8, "heldout_app_names": ()}),
            "rollout": small.rollout.model_copy(update={"episodes_per_round": 30, "group_size": 1}),
            "guidance": GuidanceSection(after_failures=0, share=0.8, demonstrate=by),
            "train": EmbeddedSftSpec(keep_per_query=9, keep_per_reply=5),
        }
    )


@pytest.mark.slow
def test_hard_queries_are_shown_to_the_policy(tmp_path: Path) -> None:
    config = demonstrating(tmp_path)
    context = RoundContext.of(config)
    up_to(RELEASE, context)
    tried = read_rows(context.warehouse, Trajectory, run_id=config.run_id)
    shown = [each for each in tried if each.purpose is Purpose.GUIDED]
    assert len(shown) == 24 and {(each.agent, each.reward) for each in shown} == {("reference", 1.0)}
    assert len({each.query_id for each in shown}) > 1 and len({each.seed for each in shown}) == 24
    assert reference_paths_used(context) == len({each.query_id for each in shown})
    assert not read_rows(context.warehouse, Guidance, run_id=config.run_id)
    rows = [row for row in read_rows(context.warehouse, Example, run_id=config.run_id) if row.guided]
    assert len(rows) == 24 * 6
    said = {row.step_index: row.messages[-1].content for row in rows}
    assert "find Market <r0> Market" in said[0] and "<r0> Back <r1> " in said[2]
    assert all("Task progress" in row.messages[1].content for row in rows)


@pytest.mark.slow
def test_the_explorer_demonstrates_without_a_reference_path(tmp_path: Path) -> None:
    config = demonstrating(tmp_path, by="explorer")
    context = RoundContext.of(config)
    up_to(DERIVE_RL, context)
    tried = read_rows(context.warehouse, Trajectory, run_id=config.run_id)
    shown = [each for each in tried if each.purpose is Purpose.GUIDED]
    assert {each.agent for each in shown} == {"explorer"} and len(shown) == 24
    assert 0 < sum(each.reward == 1.0 for each in shown) < 24, "it tries, and is not told the way"
    assert reference_paths_used(context) == 0
    refresh_views(context.warehouse)
    with run_views(context.warehouse, config.run_id) as views:
        demonstrators = views.rows(TABLES["demonstrators"])
    assert [row.agent for row in demonstrators] == ["explorer"]
    rows = [row for row in read_rows(context.warehouse, Example, run_id=config.run_id) if row.guided]
    assert any("find Market <r0> Market" in row.messages[-1].content for row in rows)
