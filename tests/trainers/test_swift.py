"""ms-swift reads what we export for it."""

from __future__ import annotations

import pytest

from tests.trainers.conftest import Load
from tests.trainers.rows import assert_conversations

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(600)]


def test_sft_learns_replies_with_their_weights(load: Load) -> None:
    for loaded in load("swift", "swift"):
        assert_conversations(loaded.exported, loaded.rows)
        weights = [example.loss_weight for example in loaded.exported.examples]
        assert loaded.told["scales"] == [[weight] for weight in weights]
        assert {1.0, 2.0} == set(weights)
