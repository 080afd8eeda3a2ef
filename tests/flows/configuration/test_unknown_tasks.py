"""The embedded critics know the tasks of annotated worlds alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.flows.configuration.check import tasks_unknown_to_judge
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").glob("*.toml"))
DESKTOP = {"environment": {"kind": "desktop"}}


@pytest.mark.parametrize("kind", ["simulated", "webapp"])
def test_annotated_worlds_can_be_judged_by_the_embedded_critics(kind: str) -> None:
    assert tasks_unknown_to_judge(Config.model_validate({"environment": {"kind": kind}})) is None


def test_a_judge_that_knows_no_task_is_named_with_what_to_do() -> None:
    warning = tasks_unknown_to_judge(Config.model_validate(DESKTOP))
    assert warning is not None and "\n" not in warning
    assert "'desktop'" in warning and "models.critic.text and models.critic.multimodal" in warning
    assert 'judge.channels = ["programmatic"]' in warning


@pytest.mark.parametrize(
    "judged",
    [
        {"judge": {"channels": ("programmatic",)}},
        {"judge": {"channels": ("text",)}, "models": {"critic": {"text": ("big",)}}},
    ],
)
def test_a_check_or_a_model_can_judge_everywhere(judged: dict[str, object]) -> None:
    assert tasks_unknown_to_judge(Config.model_validate(DESKTOP | judged)) is None


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_no_example_has_a_judge_that_knows_no_task(file: Path) -> None:
    assert tasks_unknown_to_judge(load_config(file)) is None
