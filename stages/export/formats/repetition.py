"""Loss weights as numbers of rows, for trainers that read no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from trajmill.stages.export.formats.sample import Sample


def repeated_by_weight(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Each sample as often as it weighs: none, once or more often; the copies of all weigh what the samples weigh.

    Rounding is carried on from sample to sample, so that of ten samples of weight 0.4 four are kept, evenly spread,
    and the sum is right to half a row. The same samples give the same rows.
    """
    due = 0.5
    for sample in samples:
        before = math.floor(due)
        due += sample.lineage.loss_weight
        for copy in range(math.floor(due) - before):
            yield sample._replace(lineage=sample.lineage._replace(copy=copy))
