"""Repeats examples according to their loss weights, for trainers that read no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from trajmill.stages.export.formats.rows.step_example import StepExample


def repeated_by_weight(examples: Iterable[StepExample]) -> Iterator[StepExample]:
    """Repeat each example as often as it weighs, so that the number of copies is the sum of the weights.

    The rounding error is carried to the next example. So four of ten examples of weight 0.4 are kept, evenly spread,
    and the sum is wrong by at most half a row. The same examples give the same rows.
    """
    due = 0.5
    for example in examples:
        before = math.floor(due)
        due += example.loss_weight
        for copy in range(math.floor(due) - before):
            yield example._replace(copy=copy)
