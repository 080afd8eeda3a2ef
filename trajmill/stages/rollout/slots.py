"""The state of each rollout slot; a slot runs one attempt after another, and many slots run at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import NamedTuple


class SlotState(StrEnum):
    """What a slot waits for."""

    INSTANCE = "instance"
    """An environment of the pool, which may have to be started."""
    ENVIRONMENT = "environment"
    """A reset, a step or a check of its environment."""
    MODEL = "model"
    """The agent's decision."""
    STORING = "storing"
    """Its finished attempt to be on the disk."""
    IDLE = "idle"
    """There is no attempt left for it."""


class SlotView(NamedTuple):
    state: SlotState
    step: int
    seconds: float
    """Since it began to wait for this."""


@dataclass(slots=True)
class RolloutSlot:
    """One place in which attempts run, one after another."""

    state: SlotState = SlotState.IDLE
    step: int = 0
    since: float = field(default_factory=perf_counter)
    """When it began to wait for this, in seconds of `time.perf_counter`."""
    spent: dict[SlotState, float] = field(default_factory=lambda: dict.fromkeys(SlotState, 0.0))
    """Seconds in each state, before the present one."""

    @contextmanager
    def waiting(self, state: SlotState) -> Iterator[None]:
        """Be in a state within the block, then in the one before it."""
        before = self._enter(state)
        try:
            yield
        finally:
            self._enter(before)

    def _enter(self, state: SlotState) -> SlotState:
        now, before = perf_counter(), self.state
        self.spent[before] += now - self.since
        self.state, self.since = state, now
        return before


class SlotBoard:
    """All slots of one worker."""

    def __init__(self) -> None:
        self._slots: list[RolloutSlot] = []

    def add(self) -> RolloutSlot:
        self._slots.append(RolloutSlot())
        return self._slots[-1]

    def views(self) -> list[SlotView]:
        now = perf_counter()
        return [SlotView(slot.state, slot.step, now - slot.since) for slot in self._slots]

    def spent(self) -> dict[SlotState, float]:
        """Seconds of all slots in each state, until now."""
        now = perf_counter()
        total = dict.fromkeys(SlotState, 0.0)
        for slot in self._slots:
            for state, seconds in slot.spent.items():
                total[state] += seconds + (now - slot.since if state is slot.state else 0.0)
        return total
