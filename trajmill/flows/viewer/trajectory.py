"""Routes to everything about one trajectory: steps, verdicts of every judge, model calls, training rows, screens."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Collection
from http import HTTPStatus

import pyarrow.dataset as ds
from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response
from PIL import Image, UnidentifiedImageError

from trajmill.flows.viewer.attempts import ATTEMPT_COLUMNS, Catalogue, Row
from trajmill.pipelines.reading.episodes import TrajectoryPlace, read_trajectory
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
        """Return its model requests, of the agent and of critics, in the order of their steps."""
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
        """Follow a short link: `/t/` and the start of a trajectory's id; the newest, if runs share an id."""
        rows = catalogue.ask(f"{select} starts_with(trajectory_id, $start) ORDER BY place DESC LIMIT 2", start=start)
        if len({row["trajectory_id"] for row in rows}) != 1:
            how = "several trajectories start" if rows else "no trajectory starts"
            raise BadInputError(f"{how} with {start!r:.40}")
        return RedirectResponse(f"/trajectories/{rows[0]['run_id']}/{rows[0]['trajectory_id']}", HTTPStatus.SEE_OTHER)

    return routes


def _offered(warehouse: Warehouse, name: str, run_id: str, ids: list[str]) -> set[str]:
    """Return those of some examples that a release offers."""
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
