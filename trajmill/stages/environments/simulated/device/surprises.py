"""Draws the surprises of an episode; the simulated world and the web app draw the same for equal seeds and queries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from trajmill.schemas.record import content_id


class Surprise(NamedTuple):
    """What may appear when an app is opened."""

    rating: bool
    """A dialog that asks to rate the app."""
    sponsored: bool
    """An advertisement in its lists."""


NO_SURPRISE = Surprise(False, False)


def episode_chance(seed: int, query_id: str) -> random.Random:
    """The random numbers that decide an episode's faults; the first one decides its surprises."""
    return random.Random(int(content_id("faults", seed, query_id), 16))


def surprises(decided_by: float, rate: float) -> Iterator[Surprise]:
    """The surprise of each opening of an app; the iterator never ends.

    Args:
        decided_by: the first number of `episode_chance`.
        rate: share of the openings with a surprise, as `FaultRates.popup`.
    """
    drawn = random.Random(decided_by)
    while True:
        happens, which = drawn.random() < rate, drawn.random()
        yield Surprise(rating=happens and which < 0.5, sponsored=happens and which >= 0.5)
