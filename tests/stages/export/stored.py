"""Stored screens and rows to export."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
from PIL import Image

from tests.stages.derive.rl_rows import EpisodeBatch, rl_rows_of
from tests.stages.derive.samples import DONE, ORIGIN, episode, failure, query, size_of, step, success
from tests.stages.models.pictures import as_png
from trajmill.schemas.actions import Action, Click
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.screen import tree_column
from trajmill.stages.derive.step_data import end_to_end_examples
from trajmill.stages.export.exporter import exporter_spec
from trajmill.stages.export.images import ReleaseScreenReader
from trajmill.stages.export.release import ExportedFile, export_release

EXPORTERS = [exporter_spec(kind) for kind in ("trl", "verl")]


def write_release(
    folder: Path, examples: Iterable[pa.RecordBatch], rl_steps: Iterable[pa.RecordBatch], screens: ReleaseScreenReader
) -> list[ExportedFile]:
    return export_release(folder, EXPORTERS, {"examples": examples, "rl_steps": rl_steps}, screens)


class StoredScreens:
    """Screens that are one colour each."""

    def image(self, screen_id: str) -> bytes:
        if screen_id == "missing":
            raise KeyError(screen_id)
        return png(screen_id)

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((screen_id, self.image(screen_id)) for screen_id in screen_ids)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        heading = UIElement("heading", screen_id, Box(0, 0, 100, 40), ("title",))
        return (heading, UIElement("button", "Größe", Box(1, 2, 3, 4), ("clickable",), "x", "app.s/w"))

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        return tree_column([self.elements(screen_id) for screen_id in screen_ids])

    def size(self, screen_id: str) -> Size:
        return size_of(screen_id)


@cache
def png(screen_id: str) -> bytes:
    colour = tuple(screen_id.encode().ljust(3)[-3:])
    return as_png(Image.new("RGB", size_of(screen_id), colour))


def examples(lengths: Sequence[int]) -> pa.Table:
    """Examples of phone successes of these lengths and of one on the desktop."""
    phone = [success(length, f"t{i}", query(f"q{i}")) for i, length in enumerate(lengths)]
    actions: list[Action] = [Click(x=1279, y=412, count=2), DONE]
    steps = [step(i, a, (f"d{i}", "d1"), platform=Platform.DESKTOP) for i, a in enumerate(actions)]
    desktop = episode(steps, name="d", asked=query("qd", Platform.DESKTOP))
    made = [e for one in (*phone, desktop) for e in end_to_end_examples(one, size_of, ORIGIN).examples]
    return rows_to_arrow("examples", made)


def rl_rows() -> pa.Table:
    asked = query("a")
    made = rl_rows_of(EpisodeBatch([success(2, "s", asked), failure(3, "f", asked)]))
    return rows_to_arrow("rl_steps", made.rows)
