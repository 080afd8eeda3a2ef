"""The runs of a warehouse and the figures of their rounds."""

from __future__ import annotations

from fastapi import APIRouter

from trajmill.flows.report.figures import JUDGE, SPLIT_NAMES, SUCCESS, run_views
from trajmill.flows.viewer.attempts import Catalogue, Row
from trajmill.warehouse.layout import Warehouse

_RUNS = """
SELECT run_id, count(*) AS attempts, sum(steps)::BIGINT AS steps, min(written_at) AS first, max(written_at) AS last
FROM attempts GROUP BY run_id ORDER BY max(place) DESC
"""
_COUNTS = """
SELECT run_id, round, purpose, count(*) AS attempts, count(*) FILTER (outcome = 'passed') AS passed,
    count(*) FILTER (judged = 'correct') AS accepted, count(*) FILTER (outcome = 'void') AS void
FROM attempts GROUP BY ALL ORDER BY run_id, round, purpose
"""
_ROUNDS = """
SELECT run_id, round, policy_before, policy_after, trained, reason, release, stages, written_at
FROM rounds WHERE $1 IN ('', run_id) ORDER BY run_id, round
"""


def run_routes(warehouse: Warehouse, catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/api")

    @routes.get("/runs")
    def runs() -> list[Row]:
        """Return all runs with their attempts and rounds, the one whose attempts landed last first.

        A round that has not ended yet is only in `counts`; the first one has the success `before` it.
        """
        with run_views(warehouse) as views:
            rounds, success, judge = (list(map(vars, views.rows(query))) for query in (_ROUNDS, SUCCESS, JUDGE))
        places = list(SPLIT_NAMES)
        shares = sorted((row for row in success if row["name"] in places), key=lambda row: places.index(row["name"]))
        for row in rounds:
            row["judge"] = _of(judge, row["run_id"], row["round"])
            for name, number in (("before", row["round"] - 1), ("success", row["round"])):
                row[name] = [
                    {"split": each["name"], "queries": each["n"], **each, "name": SPLIT_NAMES[each["name"]]}
                    for each in _of(shares, row["run_id"], number)
                ]
        counts = catalogue.ask(_COUNTS, [])
        return [
            run | {"counts": _of(counts, run["run_id"]), "rounds": _of(rounds, run["run_id"])}
            for run in catalogue.ask(_RUNS, [])
        ]

    return routes


def _of(rows: list[Row], run_id: str, number: int | None = None) -> list[Row]:
    return [row for row in rows if row["run_id"] == run_id and number in (None, row["round"])]
