from __future__ import annotations

import pytest

from trajmill.flows.cli.loop import STAGE_COMMANDS
from trajmill.flows.configuration.config import Config
from trajmill.flows.round import COMMANDS, STAGES, stages_of


def test_every_command_is_on_the_command_line_and_needs_only_stages_before_its_own() -> None:
    names = [stage.name for stage in STAGES]
    for place, stage in enumerate(STAGES):
        assert set(COMMANDS[stage.command]) <= set(names[:place])
    assert set(STAGE_COMMANDS) | {"derive", "judge"} == set(COMMANDS)


@pytest.mark.parametrize(("key", "stage"), [("curriculum", "propose"), ("fresh", "fresh")])
def test_queries_are_added_only_where_they_are_asked_for(key: str, stage: str) -> None:
    asked = Config.model_validate({"queries": {key: 2}})
    assert {stage.name for stage in stages_of(asked)} - {stage.name for stage in stages_of(Config())} == {stage}
