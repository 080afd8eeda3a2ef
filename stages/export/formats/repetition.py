"""Loss weights as numbers of rows, for trainers that read no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from trajmill.stages.export.formats.rows.step_example import StepExample


def repeated_by_weight(examples: Iterable[StepExample]) -> Iterator[StepExample]:
    """Each example as often as it weighs: none, once or more often; the copies of all weigh what the examples weigh.

    Rounding is carried on from example to example, so that of ten examples of weight 0.4 four are kept, evenly spread,
    and the sum is right to half a row. The same examples give the same rows.
    """
    due = 0.5
    for example in examples:
        before = math.floor(due)
        due += example.lineage.loss_weight
        for copy in range(math.floor(due) - before):
            yield example._replace(lineage=example.lineage._replace(copy=copy))
