"""Loss weights as rows, for trainers that read no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep
from trajmill.stages.export.formats.rows.step_example import StepExample


def without_weightless(steps: Iterable[StepExample | LeftOutStep]) -> Iterator[StepExample | LeftOutStep]:
    """Replace the examples of weight 0 by the reason why they give no row."""
    for step in steps:
        weightless = isinstance(step, StepExample) and step.loss_weight <= 0
        yield LeftOutStep("weight_zero") if weightless else step


def repeat_by_weight(examples: Iterable[StepExample]) -> Iterator[StepExample]:
    """Repeat each example as often as it weighs, rounded to a whole number, and at least once.

    The copies share the weight: their `loss_weight` sums to the weight of the example. A trainer that reads it learns
    exactly the weight; one that does not learns each example at least once.
    """
    for example in examples:
        copies = max(1, math.floor(example.loss_weight + 0.5))
        for copy in range(copies):
            yield example._replace(copy=copy, loss_weight=example.loss_weight / copies)
