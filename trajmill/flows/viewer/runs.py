"""The routes of whole runs and their failures and policies, and those to everything about one trajectory."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlencode

import pyarrow.dataset as ds
from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response
from PIL import Image, UnidentifiedImageError

from trajmill.flows.report.comparison import compare_measured, measured_policies
from trajmill.flows.report.figures import SPLIT_NAMES, run_views
from trajmill.flows.viewer.attempts import ATTEMPT_COLUMNS, Catalogue, Row
from trajmill.pipelines.reading.episodes import TrajectoryPlace, read_trajectory
from trajmill.pipelines.reading.slots import read_slots, slot_screen
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.export.exporter import SFT_FILE
from trajmill.stages.export.release import SELECTION_FILE
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import read_release, release_folder, release_names
from trajmill.warehouse.screens import WarehouseScreens

_MOST_OTHERS = 60
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MOST_PIXELS = 64_000_000
"""Above this a browser would take more than 256 MB to decode it."""
_RUNS = """
SELECT run_id, count(*) AS attempts, sum(steps)::BIGINT AS steps, min(written_at) AS first, max(written_at) AS last
FROM attempts GROUP BY run_id ORDER BY max(place) DESC
"""
_COUNTS = """
SELECT run_id, round, purpose, count(*) AS attempts, count(*) FILTER (outcome = 'passed') AS passed,
    count(*) FILTER (judged = 'correct') AS accepted, count(*) FILTER (outcome = 'void') AS void
FROM attempts GROUP BY ALL ORDER BY run_id, round, purpose
"""
_PURPOSE_ROUNDS = """
SELECT DISTINCT round FROM attempts
WHERE run_id = $run AND purpose = $purpose AND outcome IN ('passed', 'not passed') ORDER BY round DESC
"""


def run_routes(warehouse: Warehouse, catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/api")

    @routes.get("/runs")
    def runs() -> list[Row]:
        """Return all runs with their attempts and rounds, the one whose attempts landed last first.

        A round that has not ended yet is only in `counts`; the first one has the success `before` it.
        """
        with run_views(warehouse) as views:
            rounds, success, judge = (list(map(vars, views.rows(name))) for name in ("run_rounds", "success", "judge"))
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
            return {"rounds": rounds, "clusters": list(map(vars, views.rows("clusters_of_round", purpose, round)))}

    @routes.get("/live")
    def live() -> list[Row]:
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
        with run_views(warehouse, run) as views:
            known = measured_policies(views)
            names = [policy for policy, _ in known]
            a, b = a or (names[1] if len(names) > 1 else ""), b or (names[0] if names else "")
            compared = compare_measured(views, a, b)
        policies = [{"policy": policy, "round": number} for policy, number in known]
        return {"policies": policies, **compared._asdict()}

    return routes


def _of(rows: list[Row], run_id: str, number: int | None = None) -> list[Row]:
    return [row for row in rows if row["run_id"] == run_id and number in (None, row["round"])]


def trajectory_routes(warehouse: Warehouse, catalogue: Catalogue) -> APIRouter:
    """Make the routes; they raise BadInputError for what is not there, and for missing or damaged files."""
    routes, lock, opened = APIRouter(), threading.Lock(), list[WarehouseScreens]()
    select = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE"

    def screens_with(names: Collection[str]) -> WarehouseScreens:
        """Return the committed screens, which all threads share, read again if one of the names is missing."""
        with lock:
            if not opened:
                opened.append(WarehouseScreens(warehouse))
            elif any(name not in opened[0] for name in names):
                opened[0].refresh()
            return opened[0]

    @routes.get("/api/trajectories/{run_id}/{trajectory_id}")
    def trajectory(run_id: str, trajectory_id: str) -> Row:
        """Return its row, its records, the sizes of its screens, and `others`, attempts at its query.

        A screen that the warehouse does not have has no size.
        """
        named = {"run": run_id, "trajectory": trajectory_id}
        rows = catalogue.ask(f"{select} run_id = $run AND trajectory_id = $trajectory", **named)
        if not rows:
            raise BadInputError(f"run {run_id!r:.40} has no trajectory {trajectory_id!r:.40}")
        [attempt] = rows
        records = read_trajectory(warehouse, TrajectoryPlace(trajectory_id, run_id, attempt["round"]))
        shown = {screen_id for step in records.steps for screen_id in (step.screen_before, step.screen_after)}
        stored = screens_with(shown)
        others = f"query_id = $query AND trajectory_id <> $trajectory ORDER BY place DESC LIMIT {_MOST_OTHERS}"
        tokens = {"reply_token_ids", "reply_logprobs"}
        return records._asdict() | {
            "attempt": attempt,
            "steps": [step.model_dump(exclude=tokens) for step in records.steps],
            "screens": {name: stored.size(name) if name in stored else None for name in sorted(shown)},
            "others": catalogue.ask(f"{select} run_id = $run AND {others}", query=attempt["query_id"], **named),
        }

    @routes.get("/api/trajectories/{run_id}/{trajectory_id}/calls")
    def calls(run_id: str, trajectory_id: str) -> list[ModelCall]:
        found = read_rows(warehouse, ModelCall, run_id=run_id, where={"trajectory_id": [trajectory_id]})
        return sorted(found, key=lambda call: -1 if call.step_index is None else call.step_index)

    @routes.get("/api/trajectories/{run_id}/{trajectory_id}/training")
    def training(run_id: str, trajectory_id: str) -> Row:
        """Return its examples, with the releases that offer them, and its rows for policy updates."""
        where = {"trajectory_id": [trajectory_id]}
        examples = read_rows(warehouse, Example, run_id=run_id, where=where)
        rl_steps = read_rows(warehouse, RLStep, run_id=run_id, where=where)
        ids = [example.example_id for example in examples]
        offered = {name: _offered(warehouse, name, run_id, ids) for name in (release_names(warehouse) if ids else ())}
        return {
            "examples": [
                {"example": example, "releases": [name for name, has in offered.items() if example.example_id in has]}
                for example in sorted(examples, key=lambda row: (row.step_index, row.kind))
            ],
            "rl_steps": sorted(rl_steps, key=lambda row: (row.round, row.step_index)),
        }

    @routes.get("/api/screens/{screen_id}")
    def screen(screen_id: str) -> Response:
        stored = screens_with({screen_id})
        if screen_id not in stored:
            raise BadInputError(f"there is no screen {screen_id!r:.40}")
        data = stored.image(screen_id)
        return Response(data, media_type=media_type_of(data), headers=_FOR_EVER)

    @routes.get("/t/{start}")
    def named(start: str) -> Response:
        """Follow a short link, `/t/` and the start of an id; the newest if runs share it, a list if no id is meant."""
        rows = catalogue.ask(f"{select} starts_with(trajectory_id, $start) ORDER BY place DESC LIMIT 2", start=start)
        if len({row["trajectory_id"] for row in rows}) != 1:
            return RedirectResponse(f"/trajectories?{urlencode({'text': start[:200]})}", HTTPStatus.SEE_OTHER)
        return RedirectResponse(f"/trajectories/{rows[0]['run_id']}/{rows[0]['trajectory_id']}", HTTPStatus.SEE_OTHER)

    return routes


def _offered(warehouse: Warehouse, name: str, run_id: str, ids: list[str]) -> set[str]:
    release = read_release(warehouse, name)
    if release.run_id != run_id:
        return set()
    folder = release_folder(warehouse, release.name)
    # A release of an earlier trajmill names its examples beside their rows.
    places = [folder / file for file in (SELECTION_FILE, SFT_FILE) if (folder / file).is_file()]
    dataset = ds.dataset([str(path) for path in places[:1]], format="parquet")
    wanted = ds.field("example_id").isin(ids)
    return set(dataset.to_table(columns=["example_id"], filter=wanted)["example_id"].to_pylist())


def media_type_of(data: bytes) -> str:
    """Return the media type of an image, from its header alone.

    Raises BadInputError if it is none of the formats that screens are stored in, or larger than any screen.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=list(_TYPES)) as image:
                kind, (width, height) = image.format, image.size
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
            raise BadInputError("the stored screenshot is no PNG, JPEG or WebP image that can be shown") from error
    if width * height > _MOST_PIXELS:
        raise BadInputError(f"the stored screenshot has {width}x{height} pixels, too many to be shown")
    return _TYPES[str(kind)]
