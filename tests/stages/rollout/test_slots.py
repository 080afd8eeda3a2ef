from __future__ import annotations

import pytest

from trajmill.stages.rollout import base
from trajmill.stages.rollout.base import SlotBoard, SlotState, SlotView


def test_a_board_says_what_each_slot_waits_for_and_where_the_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(base, "perf_counter", lambda: now)
    board = SlotBoard()
    first, second = board.add(), board.add()
    for slot in (first, second):
        slot.since = now
    with first.waiting(SlotState.INSTANCE):
        now = 1.0
        with first.waiting(SlotState.ENVIRONMENT):
            now = 4.0
        with first.waiting(SlotState.MODEL):
            first.step = 7
            now = 6.0
            assert board.views() == [SlotView(SlotState.MODEL, 7, 2.0), SlotView(SlotState.IDLE, 0, 6.0)]
            spent = board.spent()
    assert spent[SlotState.INSTANCE] == 1.0 and spent[SlotState.ENVIRONMENT] == 3.0
    assert spent[SlotState.MODEL] == 2.0 and spent[SlotState.IDLE] == 6.0
    assert sum(spent.values()) == 12.0, "two slots, six seconds"
    assert first.state is SlotState.IDLE
    with pytest.raises(ValueError, match="lost"), first.waiting(SlotState.MODEL):
        raise ValueError("lost")
    assert first.state is SlotState.IDLE
