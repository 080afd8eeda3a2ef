"""The routes of whole runs: their rounds, why attempts failed, and two policies beside each other."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from trajmill.flows.report.figures import JUDGE, SPLIT_NAMES, SUCCESS, run_views
from trajmill.flows.viewer.attempts import Catalogue, Row
from trajmill.flows.viewer.trajectory import media_type_of
from trajmill.pipelines.reading.slots import read_slots, slot_screen
from trajmill.schemas.errors import BadInputError
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
_FAILURES = """
SELECT * EXCLUDE (run_id, purpose) FROM failure_clusters
WHERE run_id = $1 AND purpose = $2 AND round = coalesce($3, (
    SELECT max(round) FROM trajectories
    WHERE run_id = $1 AND purpose = $2 AND status = 'finished' AND reward IS NOT NULL
))
"""
_PURPOSE_ROUNDS = """
SELECT DISTINCT round FROM attempts
WHERE run_id = $run AND purpose = $purpose AND outcome IN ('passed', 'not passed') ORDER BY round DESC
"""
_POLICIES = """
SELECT model_version AS policy, max(round) AS round FROM attempts
WHERE run_id = $run AND purpose = 'evaluate' AND outcome IN ('passed', 'not passed')
GROUP BY ALL ORDER BY max(place) DESC
"""
# The last attempt of each policy at each query that both were measured on.
_SIDES = """
WITH measured AS (
    SELECT * FROM attempts
    WHERE run_id = $run AND purpose = 'evaluate' AND outcome IN ('passed', 'not passed') AND model_version IN ($a, $b)
    QUALIFY row_number() OVER (PARTITION BY model_version, query_id ORDER BY place DESC) = 1
)
SELECT a.query_id, a.split, a.task, a.apps, a.instruction, a.trajectory_id AS a, b.trajectory_id AS b,
    a.outcome = 'passed' AS first, b.outcome = 'passed' AS second,
    CASE WHEN first AND second THEN 'both' WHEN second THEN 'gained' WHEN first THEN 'lost' ELSE 'neither' END AS side
FROM measured AS a JOIN measured AS b USING (query_id)
WHERE a.model_version = $a AND b.model_version = $b
ORDER BY a.split, a.task, a.query_id
"""
# Queries by split, app and task, and how many are on which side; a query of several apps counts for each of them.
_GROUPS = f"""
SELECT kind, name, count(*) AS queries, count_if(first) AS first, count_if(second) AS second,
    count_if(side = 'gained') AS gained, count_if(side = 'lost') AS lost
FROM (
    SELECT first, second, side, unnest(list_concat([('split', split), ('task', task)], [('app', app) FOR app IN apps]))
        AS of_one, of_one[1] AS kind, of_one[2] AS name
    FROM ({_SIDES})
)
WHERE name IS NOT NULL GROUP BY kind, name ORDER BY list_position(['split', 'app', 'task'], kind), name
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
        counts = catalogue.ask(_COUNTS)
        return [
            run | {"counts": _of(counts, run["run_id"]), "rounds": _of(rounds, run["run_id"])}
            for run in catalogue.ask(_RUNS)
        ]

    @routes.get("/failures")
    def failures(run: str, purpose: str = "evaluate", round: int | None = None) -> Row:
        """Group the failed attempts of a round, by default the last one, and list the rounds with any attempts."""
        rounds = [row["round"] for row in catalogue.ask(_PURPOSE_ROUNDS, run=run, purpose=purpose)]
        with run_views(warehouse, run) as views:
            return {"rounds": rounds, "clusters": list(map(vars, views.rows(_FAILURES, purpose, round)))}

    @routes.get("/live")
    def live() -> list[Row]:
        """Return the slots of all runs of this machine that roll out right now."""
        runs = sorted(folder.name for folder in (warehouse.root / "staging").glob("*") if folder.is_dir())
        found = {run: read_slots(warehouse, run) for run in runs}
        return [
            {"run_id": run, "workers": live.workers, "slots": [slot._asdict() for slot in live.slots]}
            for run, live in found.items()
            if live.workers
        ]

    @routes.get("/live/{run}/{screen_id}")
    def live_screen(run: str, screen_id: str) -> Response:
        """Return the last screen of a slot, or 404 after the attempt has gone on."""
        image = slot_screen(warehouse, run, screen_id)
        if image is None:
            raise BadInputError(f"no slot of {run!r} shows screen {screen_id!r}")
        return Response(image, media_type=media_type_of(image), headers={"cache-control": "no-store"})

    @routes.get("/policies")
    def policies(run: str, a: str = "", b: str = "") -> Row:
        """Compare two policies, by default the last two, on the queries that both were measured on."""
        known = catalogue.ask(_POLICIES, run=run)
        names = [row["policy"] for row in known]
        a, b = a or (names[1] if len(names) > 1 else ""), b or (names[0] if names else "")
        sides, groups = (catalogue.ask(query, run=run, a=a, b=b) for query in (_SIDES, _GROUPS))
        return {"policies": known, "a": a, "b": b, "queries": sides, "groups": groups}

    return routes


def _of(rows: list[Row], run_id: str, number: int | None = None) -> list[Row]:
    return [row for row in rows if row["run_id"] == run_id and number in (None, row["round"])]
