"""verl reads what we export for it."""

from __future__ import annotations

import pytest

from tests.trainers.conftest import Load
from tests.trainers.rows import assert_conversations, assert_prompts

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(600)]


def test_sft_learns_replies_and_rl_rewards_them(load: Load) -> None:
    for loaded in load("verl", "verl-sft", "verl"):
        if loaded.exported.job.format == "verl-sft":
            assert_conversations(loaded.exported, loaded.rows)
            continue
        assert_prompts(loaded.exported, loaded.rows)
        assert loaded.told["rewards"] == pytest.approx([1.0] * len(loaded.rows))
        assert loaded.told["indices"] == list(range(len(loaded.rows)))
