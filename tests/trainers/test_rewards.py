"""What TRL's and verl's own code pays for the replies of `docs/rewards.md`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.export.reward_table import rewarded_replies
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.trainers.conftest import TrainerProcess
from trajmill.schemas.dialects.families import family_named
from trajmill.stages.export.formats.base import TrainerSettings, format_spec

pytestmark = pytest.mark.trainers


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_a_trainer_pays_what_the_page_says(
    trainer: str, trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    table = rewarded_replies()
    format_spec("verl").write_settings(tmp_path, TrainerSettings(family_named("gui-owl-1.5"), 8192, 1))
    asked, answers = tmp_path / "asked.json", tmp_path / "answers.json"
    asked.write_text(
        json.dumps(
            {
                "rows": [(row.target, row.reply) for row in table],
                "model": str(build_tiny_vlm(tmp_path / "tiny")),
                "reward_file": str(tmp_path / "reward.py"),
            }
        )
    )
    trainer_process(trainer).run(f"reward_{trainer}", tmp_path, asked, answers)
    paid = json.loads(answers.read_text())
    assert [tuple(round(paid[rule][at], 2) for rule in ("ces", "coda", "action")) for at in range(len(table))] == [
        row.rewards for row in table
    ]
