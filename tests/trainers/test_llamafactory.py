"""LLaMA-Factory reads what we export for it."""

from __future__ import annotations

import pytest

from tests.trainers.conftest import Load
from tests.trainers.rows import assert_conversations

pytestmark = pytest.mark.trainers


def test_sft_learns_replies(load: Load) -> None:
    for loaded in load("llamafactory", "llamafactory"):
        assert_conversations(loaded.exported, loaded.rows)
