"""Says what in a run's figures a person should look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trajmill.flows.report.charts import Series
from trajmill.flows.report.figures import Figures, JudgeColumn, ModelRow

_KAPPA_FALL = 0.1
"""A smaller fall from one round to another is taken for chance."""


def warnings(figures: Figures) -> tuple[str, ...]:
    """A line for each split that fell while versions were promoted, and each judge that agrees less than before."""
    return (*_fallen_splits(figures.success, figures.models), *_fallen_kappas(figures.judge, figures.rounds))


def _fallen_splits(success: Sequence[Series], models: Sequence[ModelRow]) -> Iterator[str]:
    """A split has fallen if the 95 % intervals of its best and of its last figure do not meet."""
    for line in success:
        best, last = max(line.points, key=lambda point: point.share), line.points[-1]
        promoted = [row.round for row in models if row.promoted and best.round < row.round <= last.round]
        if promoted and last.high < best.low:
            yield (
                f"Success on {line.name} fell from {best.share:.0%} after round {best.round} to {last.share:.0%} after "
                f"round {last.round}, while {len(promoted)} {'versions were' if len(promoted) > 1 else 'version was'} "
                "promoted"
            )


def _fallen_kappas(judge: Sequence[JudgeColumn], rounds: Sequence[int]) -> Iterator[str]:
    for column in judge:
        measured = [
            (number, cell.kappa)
            for number, cell in zip(rounds, column.cells, strict=True)
            if cell is not None and cell.kappa is not None
        ]
        if not measured:
            continue
        (best_round, best), (last_round, last) = max(measured, key=lambda pair: pair[1]), measured[-1]
        if last < best - _KAPPA_FALL:
            yield (
                f"Kappa of the judge's level {column.level!r} fell from {best:.2f} in round {best_round} to {last:.2f} "
                f"in round {last_round}: look at its verdicts, or calibrate it anew"
            )
