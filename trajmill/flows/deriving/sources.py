"""Chooses the trajectories, and for some kinds the screens, that rows of a kind are still to be derived from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.flows.context import RoundContext
from trajmill.pipelines.deriving.kind import DerivedFrom
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.warehouse.read import read_table


def sources_of_round(context: RoundContext, done: Collection[str], once_per_screen: bool) -> list[DerivedFrom]:
    """The judged training trajectories of a round that nothing was derived from yet, in the order of their ids.

    Args:
        context: the round.
        done: trajectories of the round that rows were derived from.
        once_per_screen: whether each screen is used only once in the run, in the first step that it is seen in.
    """
    judged = _judged(context)
    if not once_per_screen:
        return [DerivedFrom(trajectory_id) for trajectory_id in sorted(judged - set(done))]
    firsts = _first_views(context, judged)
    return [DerivedFrom(trajectory_id, firsts[trajectory_id]) for trajectory_id in sorted(set(firsts) - set(done))]


def _judged(context: RoundContext) -> set[str]:
    columns = ["trajectory_id", "status", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=[context.round], run_id=context.run_id)
    kept = rows.filter(
        pc.and_(
            pc.equal(rows["status"], "finished"),
            pc.is_in(rows["purpose"], pa.array(sorted(LEARNED_FROM), pa.string())),
        )
    )
    # A late judgement stands in a later round than its trajectory.
    verdicts = read_verdicts(context.warehouse, "judgements", ["trajectory_id"], run_id=context.run_id)
    return set(kept["trajectory_id"].to_pylist()) & set(verdicts["trajectory_id"].to_pylist())


def _first_views(context: RoundContext, judged: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """By trajectory, the steps that are the first of the run to show the screen before them."""
    columns = ["trajectory_id", "index", "screen_before"]
    earlier = read_table(
        context.warehouse, "steps", ["screen_before"], rounds=range(context.round), run_id=context.run_id
    )
    steps = read_table(context.warehouse, "steps", columns, rounds=[context.round], run_id=context.run_id)
    steps = steps.filter(pc.is_in(steps["trajectory_id"], pa.array(sorted(judged), pa.string())))
    new = steps.filter(pc.invert(pc.is_in(steps["screen_before"], earlier["screen_before"].combine_chunks())))
    ordered = new.sort_by([("trajectory_id", "ascending"), ("index", "ascending")])
    return _grouped(*(column.to_pylist() for column in ordered.columns))


def _grouped(
    trajectories: Sequence[str], indices: Sequence[int], screens: Sequence[str]
) -> Mapping[str, tuple[int, ...]]:
    seen: set[str] = set()
    found: dict[str, tuple[int, ...]] = {}
    for trajectory_id, index, screen_id in zip(trajectories, indices, screens, strict=True):
        if screen_id not in seen:
            seen.add(screen_id)
            found[trajectory_id] = (*found.get(trajectory_id, ()), index)
    return found
