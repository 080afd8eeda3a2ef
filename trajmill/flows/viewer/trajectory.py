"""Everything about one trajectory: its steps, verdicts of every judge, guidance, and other attempts at its query."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Collection
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.listing import AttemptRow
from trajmill.pipelines.reading.trajectory import TrajectoryPlace, read_trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Record
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens

_MOST_OTHERS = 60
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MOST_PIXELS = 64_000_000
"""Above this a browser would take more than 256 MB to decode it."""


class TrajectoryPage(Record):
    """One trajectory."""

    attempt: AttemptRow
    trajectory: Trajectory
    query: Query | None
    """None if the warehouse does not have it."""
    guidance: Guidance | None
    steps: tuple[Step, ...]
    step_verdicts: tuple[StepVerdict, ...]
    votes: tuple[TrajectoryVerdict, ...]
    judgements: tuple[Judgement, ...]
    """Of every judge; the last one of the run's own counts."""
    screens: dict[str, Size | None]
    """Width and height of each screen of the steps by id; None for one that the warehouse does not have."""
    others: list[AttemptRow]
    """Other attempts at the query in the run, the newest first."""


def trajectory_page(
    warehouse: Warehouse, catalogue: Catalogue, screens: SharedScreens, run_id: str, trajectory_id: str
) -> TrajectoryPage:
    """Read one trajectory.

    Raises:
        BadInputError: there is none with this id, or a committed file is missing or damaged.
    """
    attempt = _attempt(catalogue, run_id, trajectory_id)
    records = read_trajectory(warehouse, TrajectoryPlace(trajectory_id, run_id, attempt.round))
    shown = {screen_id for step in records.steps for screen_id in (step.screen_before, step.screen_after)}
    stored = screens.knowing(shown)
    return TrajectoryPage(
        attempt=attempt,
        **records._asdict(),
        screens={screen_id: stored.size(screen_id) if screen_id in stored else None for screen_id in sorted(shown)},
        others=_others(catalogue, attempt),
    )


def model_calls(warehouse: Warehouse, run_id: str, trajectory_id: str) -> list[ModelCall]:
    """The requests to models that a trajectory has caused, of the agent and of critics, in the order of their steps.

    Raises:
        BadInputError: a committed file or an entry of the table's log is missing or damaged.
    """
    found = read_table(warehouse, "model_calls", run_id=run_id, where={"trajectory_id": [trajectory_id]})
    calls = [row for row in rows_from_arrow("model_calls", found) if isinstance(row, ModelCall)]
    return sorted(calls, key=lambda call: -1 if call.step_index is None else call.step_index)


def trajectory_named(catalogue: Catalogue, start: str) -> AttemptRow:
    """The attempt whose trajectory id starts so; the newest, if runs share an id.

    Raises:
        BadInputError: there is none, or there are several ids.
    """
    rows = _select(catalogue, "starts_with(trajectory_id, ?)", [start], limit=2)
    if not rows or len({row.trajectory_id for row in rows}) > 1:
        raise BadInputError(f"{'several trajectories start' if rows else 'no trajectory starts'} with {start!r:.40}")
    return rows[0]


def _attempt(catalogue: Catalogue, run_id: str, trajectory_id: str) -> AttemptRow:
    rows = _select(catalogue, "run_id = ? AND trajectory_id = ?", [run_id, trajectory_id], limit=1)
    if not rows:
        raise BadInputError(f"run {run_id!r:.40} has no trajectory {trajectory_id!r:.40}")
    return rows[0]


def _others(catalogue: Catalogue, attempt: AttemptRow) -> list[AttemptRow]:
    condition = "run_id = ? AND query_id = ? AND trajectory_id <> ?"
    parameters: list[object] = [attempt.run_id, attempt.query_id, attempt.trajectory_id]
    return _select(catalogue, condition, parameters, limit=_MOST_OTHERS)


def _select(catalogue: Catalogue, condition: str, parameters: list[object], limit: int) -> list[AttemptRow]:
    columns = ", ".join(AttemptRow.model_fields)
    query = f"SELECT {columns} FROM attempts WHERE {condition} ORDER BY place DESC LIMIT ?"
    return [AttemptRow.model_validate(row) for row in catalogue.ask(query, [*parameters, limit])]


class StoredImage(NamedTuple):
    """An encoded image."""

    data: bytes
    media_type: str


class SharedScreens:
    """The committed screens, read by the threads of a server; follows the commits of the warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Read nothing yet."""
        self._warehouse = warehouse
        self._screens: WarehouseScreens | None = None
        self._lock = threading.Lock()

    def knowing(self, screen_ids: Collection[str]) -> WarehouseScreens:
        """The screens, looked up again if one of these ids is not known.

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
        """One screenshot.

        Raises:
            BadInputError: there is no such screen, or it is no image that a browser should decode.
        """
        screens = self.knowing({screen_id})
        if screen_id not in screens:
            raise BadInputError(f"there is no screen {screen_id!r:.40}")
        return checked_image(screens.image(screen_id))


def checked_image(data: bytes) -> StoredImage:
    """An image with its type, from its header alone.

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
