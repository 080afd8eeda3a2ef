"""Everything about one trajectory: its steps, verdicts of every judge, guidance, and other attempts at its query."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Collection
from typing import Any, NamedTuple

from PIL import Image, UnidentifiedImageError

from trajmill.flows.viewer.catalogue import Catalogue, Row
from trajmill.flows.viewer.listing import ATTEMPT_COLUMNS
from trajmill.pipelines.reading.episodes import TrajectoryPlace, read_trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens

_MOST_OTHERS = 60
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MOST_PIXELS = 64_000_000
"""Above this a browser would take more than 256 MB to decode it."""


def trajectory_page(
    warehouse: Warehouse, catalogue: Catalogue, screens: SharedScreens, run_id: str, trajectory_id: str
) -> dict[str, Any]:
    """Return one trajectory: its row, its records, the sizes of its screens, and `others`, attempts at its query.

    A screen that the warehouse does not have has no size.

    Raises:
        BadInputError: there is none with this id, or a committed file is missing or damaged.
    """
    rows = _attempts(catalogue, "run_id = ? AND trajectory_id = ?", [run_id, trajectory_id], limit=1)
    if not rows:
        raise BadInputError(f"run {run_id!r:.40} has no trajectory {trajectory_id!r:.40}")
    [attempt] = rows
    records = read_trajectory(warehouse, TrajectoryPlace(trajectory_id, run_id, attempt["round"]))
    shown = {screen_id for step in records.steps for screen_id in (step.screen_before, step.screen_after)}
    stored = screens.knowing(shown)
    same_query = "run_id = ? AND query_id = ? AND trajectory_id <> ?"
    tokens = {"reply_token_ids", "reply_logprobs"}
    return records._asdict() | {
        "attempt": attempt,
        "steps": [step.model_dump(exclude=tokens) for step in records.steps],
        "screens": {screen_id: stored.size(screen_id) if screen_id in stored else None for screen_id in sorted(shown)},
        "others": _attempts(catalogue, same_query, [run_id, attempt["query_id"], trajectory_id], limit=_MOST_OTHERS),
    }


def model_calls(warehouse: Warehouse, run_id: str, trajectory_id: str) -> list[ModelCall]:
    """Return the model requests of a trajectory, of the agent and of critics, in the order of their steps.

    Raises:
        BadInputError: a committed file or an entry of the table's log is missing or damaged.
    """
    found = read_table(warehouse, "model_calls", run_id=run_id, where={"trajectory_id": [trajectory_id]})
    calls = [row for row in rows_from_arrow("model_calls", found) if isinstance(row, ModelCall)]
    return sorted(calls, key=lambda call: -1 if call.step_index is None else call.step_index)


def trajectory_named(catalogue: Catalogue, start: str) -> Row:
    """Return the attempt whose trajectory id starts so; the newest, if runs share an id.

    Raises:
        BadInputError: there is none, or there are several ids.
    """
    rows = _attempts(catalogue, "starts_with(trajectory_id, ?)", [start], limit=2)
    if len({row["trajectory_id"] for row in rows}) != 1:
        raise BadInputError(f"{'several trajectories start' if rows else 'no trajectory starts'} with {start!r:.40}")
    return rows[0]


def _attempts(catalogue: Catalogue, condition: str, parameters: list[object], limit: int) -> list[Row]:
    query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {condition} ORDER BY place DESC LIMIT ?"
    return catalogue.ask(query, [*parameters, limit])


class StoredImage(NamedTuple):
    data: bytes
    media_type: str


class SharedScreens:
    """The committed screens, shared by the threads of a server."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._screens: WarehouseScreens | None = None
        self._lock = threading.Lock()

    def knowing(self, screen_ids: Collection[str]) -> WarehouseScreens:
        """Return the screens, refreshed if one of these ids is missing.

        Raises:
            BadInputError: a committed file or an entry of the table's log is missing or damaged.
        """
        with self._lock:
            if self._screens is None:
                self._screens = WarehouseScreens(self._warehouse)
            elif any(screen_id not in self._screens for screen_id in screen_ids):
                self._screens.refresh()
            return self._screens

    def image(self, screen_id: str) -> StoredImage:
        """Return one screenshot.

        Raises:
            BadInputError: there is no such screen, or it is no image that a browser should decode.
        """
        screens = self.knowing({screen_id})
        if screen_id not in screens:
            raise BadInputError(f"there is no screen {screen_id!r:.40}")
        return checked_image(screens.image(screen_id))


def checked_image(data: bytes) -> StoredImage:
    """Return an image with its type, from its header alone.

    Raises:
        BadInputError: it is none of the formats that screens are stored in, or larger than any screen.
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
    return StoredImage(data, _TYPES[str(kind)])
