"""Reads what a run has reached from the warehouse's views."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect, fresh_views

KAPPA = "kappa"
"""Name of the judge's agreement beyond chance, which is no percentage."""


class Trend(NamedTuple):
    """A share now, and one round before."""

    name: str
    now: float | None
    before: float | None


class DiskUse(NamedTuple):
    """Bytes of a warehouse, and what is free beside it."""

    used: int
    free: int
    total: int


class MalformedReplies(NamedTuple):
    """How many replies of a role are not what it was asked for."""

    role: str
    malformed: int
    replies: int


class RunResults(NamedTuple):
    """What a run has reached."""

    rounds: int
    """Finished rounds."""
    policy: str
    """The version in force; empty before the first round has ended."""
    reason: str
    """Why the last round has promoted its policy, or not."""
    success: tuple[Trend, ...]
    """By split."""
    judge: tuple[Trend, ...]
    """Precision and kappa."""
    cost: float
    """Price of all model calls."""
    last_cost: float
    """Of the last finished round."""
    failures: tuple[tuple[str, int], ...]
    """Of the newest round, by class."""
    malformed: tuple[MalformedReplies, ...]
    """Of the newest round, by role; roles without malformed replies are left out."""


def run_results(warehouse: Warehouse, run_id: str) -> RunResults:
    """Read the results of a run."""
    with fresh_views(warehouse) as shown, connect(shown) as views:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return views.execute(query, [run_id]).fetchall()

        last = rows("SELECT round, policy_after, reason FROM rounds WHERE run_id = $1 ORDER BY round DESC LIMIT 1")
        costs = rows("SELECT round, sum(cost) FROM cost_by_stage WHERE run_id = $1 GROUP BY 1 ORDER BY 1 DESC")
        return RunResults(
            rounds=len(rows("SELECT round FROM rounds WHERE run_id = $1")),
            policy=str(last[0][1]) if last else "",
            reason=str(last[0][2] or "") if last else "",
            success=_trends(rows(_SUCCESS)),
            judge=_trends(rows(_JUDGE)),
            cost=float(sum(cost or 0.0 for _, cost in costs)),
            last_cost=float(costs[0][1] or 0.0) if costs else 0.0,
            failures=tuple((name, count) for name, count in rows(_FAILURES)),
            malformed=tuple(MalformedReplies(*row) for row in rows(_MALFORMED)),
        )


def disk_use(root: Path) -> DiskUse:
    """How much a warehouse takes of its disk."""
    disk = shutil.disk_usage(root)
    return DiskUse(sum(map(_size, root.rglob("*"))), disk.free, disk.total)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for anything else, and for a file that another process has just removed."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


_SUCCESS = """
WITH kept AS (
    SELECT round, unnest(success_after, recursive := true) FROM rounds WHERE run_id = $1
    QUALIFY round > max(round) OVER () - 2
)
SELECT split, round, successes / queries FROM kept WHERE queries > 0 ORDER BY split, round DESC
"""
_JUDGE = """
WITH kept AS (
    SELECT round, precision, kappa FROM judge_by_round WHERE run_id = $1 AND level = 'trajectory'
    QUALIFY round > max(round) OVER () - 2
)
SELECT 'precision', round, precision FROM kept UNION ALL SELECT 'kappa', round, kappa FROM kept ORDER BY 1 DESC, 2 DESC
"""
_FAILURES = """
SELECT failure_class, count(*)::BIGINT FROM failures
WHERE run_id = $1 AND round = (SELECT max(round) FROM failures WHERE run_id = $1) GROUP BY 1 ORDER BY 2 DESC
"""
_MALFORMED = """
SELECT role, count(malformed)::BIGINT, count(*)::BIGINT FROM role_calls
WHERE run_id = $1 AND round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
GROUP BY 1 HAVING count(malformed) > 0 ORDER BY 2 DESC, 1
"""


def _trends(rows: list[tuple[Any, ...]]) -> tuple[Trend, ...]:
    """Pairs of a figure in the newest round and in the one before."""
    found: dict[str, list[float | None]] = {}
    for name, _, share in rows:
        found.setdefault(name, []).append(share)
    return tuple(Trend(name, shares[0], shares[1] if len(shares) > 1 else None) for name, shares in found.items())
