"""Reads what rewards are made of from columns of committed rows, without the texts of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.stages.derive.rl_groups import RLAttempt
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_table

_ATTEMPT = ("trajectory_id", "query_id", "round", "model_version", "purpose", "status")


def read_rl_attempts(
    warehouse: Warehouse,
    run_id: str,
    trajectory_ids: Collection[str],
    rounds: Collection[int],
    judged_until: int,
) -> list[RLAttempt]:
    """Read what decides the groups and rewards of some attempts.

    Args:
        warehouse: where to read.
        run_id: the run of the attempts.
        trajectory_ids: the attempts.
        rounds: the rounds in which they were made.
        judged_until: the last round whose judgements count: a judge may decide rounds later what it could not at first.
    """
    chosen = pa.array(sorted(trajectory_ids), pa.string())
    table = read_table(warehouse, "trajectories", _ATTEMPT, rounds=rounds, run_id=run_id)
    rows = table.filter(pc.is_in(table["trajectory_id"], chosen)).to_pydict()
    queries = read_table(warehouse, "queries", ["query_id", "split"], run_id=run_id)
    splits = dict(zip(*(column.to_pylist() for column in queries.columns), strict=True))
    judged_in = range(min(rounds), judged_until + 1)
    judgements = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=judged_in, run_id=run_id)
    correct = dict(zip(*(column.to_pylist() for column in judgements.columns), strict=True))
    replies = count_replies(warehouse, run_id, rounds)
    return [
        RLAttempt(
            trajectory_id=trajectory_id,
            query_id=query_id,
            split=splits[query_id],
            round=number,
            model_version=version,
            purpose=purpose,
            status=status,
            steps=replies.steps[trajectory_id],
            malformed=replies.malformed[trajectory_id],
            correct=correct.get(trajectory_id),
        )
        for trajectory_id, query_id, number, version, purpose, status in zip(
            *(rows[name] for name in _ATTEMPT), strict=True
        )
    ]


class Replies(NamedTuple):
    """By trajectory id, how many steps it has."""

    steps: Counter[str]
    malformed: Counter[str]
    """Those whose reply could not be parsed."""


def count_replies(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> Replies:
    """Count the replies of the attempts of some rounds."""
    found = Replies(Counter(), Counter())
    for batch in read_batches(warehouse, "steps", ["trajectory_id", "action_kind"], rounds=rounds, run_id=run_id):
        names, kinds = batch["trajectory_id"], batch["action_kind"]
        _count(found.steps, names)
        _count(found.malformed, names.filter(pc.equal(kinds, "unparsed")))
    return found


def _count(counter: Counter[str], names: pa.Array) -> None:
    for counted in pc.value_counts(names).to_pylist():
        counter[counted["values"]] += counted["counts"]
