from __future__ import annotations

import pytest

from trajmill.flows.cli.loop import STAGE_COMMANDS
from trajmill.flows.configuration.config import Config
from trajmill.flows.round import COMMANDS, STAGES, needed_before, stages_of


def test_a_stage_needs_only_stages_that_come_before_it() -> None:
    names = [stage.name for stage in STAGES]
    for place, stage in enumerate(STAGES):
        assert set(stage.needs) <= set(names[:place])


def test_every_command_is_on_the_command_line() -> None:
    assert set(STAGE_COMMANDS) | {"derive", "judge"} == set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("generate", []),
        ("rollout", ["generate", "baseline"]),
        ("judge", ["rollout"]),
        ("guide", ["judge"]),
        ("derive", ["judge"]),
        ("release", ["derive", "derive_rl"]),
        ("train", ["release"]),
        ("evaluate", ["train"]),
    ],
)
def test_a_command_needs_what_its_stages_need(command: str, needed: list[str]) -> None:
    assert [stage.name for stage in needed_before(command)] == needed


@pytest.mark.parametrize(("key", "stage"), [("curriculum", "propose"), ("fresh", "fresh")])
def test_queries_are_added_only_where_they_are_asked_for(key: str, stage: str) -> None:
    asked = Config.model_validate({"queries": {key: 2}})
    assert {stage.name for stage in stages_of(asked)} - {stage.name for stage in stages_of(Config())} == {stage}
