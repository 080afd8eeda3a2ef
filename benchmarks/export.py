"""Rows per second of curating and exporting a release, against a plain pyarrow loop over the same bytes in one run.

    python -m benchmarks.export --rows 6000 --screens 2000 --image-bytes 20000

The screens lie in a Parquet file in row groups of 64, as a warehouse keeps them. The plain loop knows nothing of
formats or memory: it loads all images, copies prompt, reply and image of each row into a table and writes that.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.schemas.tables.screen import IMAGE, tree_column
from trajmill.stages.curate.training_set import digests_of, training_set
from trajmill.stages.export.exporter import exporter_spec
from trajmill.stages.export.release import check_release, export_release

_SIZE = Size(720, 1280)
_STEPS = 8
_ELEMENTS = 25


class ParquetScreens:
    """Screens in one Parquet file, read by row group; trees in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        ids = pq.read_table(path, columns=["screen_id"])["screen_id"].to_pylist()
        self._rows = {screen_id: row for row, screen_id in enumerate(ids)}
        footer = pq.read_metadata(path)
        self._trees = tree_column([self.elements(screen_id) for screen_id in ids])
        self._ends = list(accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups)))

    def image(self, screen_id: str) -> bytes:
        """The encoded image."""
        return dict(self.images([screen_id]))[screen_id]

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The ids with their encoded images, each row group read once."""
        by_group: dict[int, list[str]] = {}
        for screen_id in screen_ids:
            by_group.setdefault(bisect_right(self._ends, self._rows[screen_id]), []).append(screen_id)
        with pq.ParquetFile(self._path) as file:
            for group, ids in by_group.items():
                column = file.read_row_group(group, columns=["image"]).column(0)
                first = self._ends[group - 1] if group else 0
                yield from ((name, column[self._rows[name] - first].as_py()["bytes"]) for name in ids)

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """Such trees as a column."""
        return self._trees.take(pa.array([self._rows[screen_id] for screen_id in screen_ids]))

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """A tree of some buttons."""
        return tuple(
            UIElement("button", f"{screen_id} {i}", Box(0, 40 * i, 300, 40 * i + 36), ("clickable",), "", f"app.s/{i}")
            for i in range(_ELEMENTS)
        )

    def size(self, screen_id: str) -> Size:
        """The size of a phone."""
        return _SIZE


class Timing(NamedTuple):
    """One line of the table."""

    what: str
    rows: int
    seconds: float
    megabytes: float


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=6000)
    options.add_argument("--screens", type=int, default=2000)
    options.add_argument("--image-bytes", type=int, default=20000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timings = measure(Path(folder), given.rows, given.screens, given.image_bytes)
    table = Table("what", "rows", "CPU s", "rows/CPU s", "MB written")
    for line in timings:
        speed = f"{line.rows / line.seconds:,.0f}"
        table.add_row(line.what, str(line.rows), f"{line.seconds:.2f}", speed, f"{line.megabytes:.0f}")
    Console().print(table)


def measure(folder: Path, rows: int, screens: int, image_bytes: int) -> list[Timing]:
    """Export the same rows with the exporter and with the plain loop."""
    _write_screens(folder / "screens.parquet", screens, image_bytes)
    examples, none = _examples(rows, screens), arrow_schema("rl_steps").empty_table()
    reader = ParquetScreens(folder / "screens.parquet")
    timings = [_timed("plain pyarrow loop", rows, lambda: _plain(examples, reader, folder / "plain.parquet"))]
    timings.append(_timed("curate", rows, lambda: _no_file(training_set(digests_of(examples), {}, per_query=rows))))
    release = folder / "release"
    exporters = [exporter_spec(kind) for kind in ("trl", "verl")]
    tables = {"examples": examples.to_batches(), "rl_steps": none.to_batches()}
    timings.append(_timed("export", rows, lambda: _size(export_release(release, exporters, tables, reader))))
    timings.append(
        _timed("check (no image opened)", rows, lambda: _no_file(check_release(release, exporters, {}, 10**9)))
    )
    return timings


def _timed(what: str, rows: int, work: Callable[[], int]) -> Timing:
    """The best of three runs, in CPU seconds of this process: the machine may be shared."""
    runs = []
    for _ in range(3):
        start = process_time()
        size = work()
        runs.append(process_time() - start)
    return Timing(what, rows, min(runs), size / 1e6)


def _no_file(result: object) -> int:
    return 0


def _size(files: Iterable[Any]) -> int:
    return sum(file.bytes for file in files)


def _plain(examples: pa.Table, reader: ParquetScreens, path: Path) -> int:
    """The least one could do: all images in memory, 64 rows at a time, texts and images, one file."""
    images = dict(reader.images({ids[0] for ids in examples["screens"].to_pylist()}))
    schema = pa.schema([("prompt", pa.string()), ("completion", pa.string()), ("image", IMAGE)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, examples.num_rows, 64):
            some = examples.slice(start, 64)
            rows = [
                {
                    "prompt": messages[0]["content"] + messages[1]["content"],
                    "completion": messages[2]["content"],
                    "image": {"bytes": images[ids[0]], "path": None},
                }
                for messages, ids in zip(some["messages"].to_pylist(), some["screens"].to_pylist(), strict=True)
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    return path.stat().st_size


def _write_screens(path: Path, screens: int, image_bytes: int) -> None:
    draw = random.Random(0)
    ids = sorted(_screen_id(number) for number in range(screens))
    images = [
        {"bytes": draw.randbytes(draw.randint(image_bytes // 2, image_bytes * 3 // 2)), "path": None} for _ in ids
    ]
    pq.write_table(pa.table({"screen_id": ids, "image": pa.array(images, IMAGE)}), path, row_group_size=64)


def _screen_id(number: int) -> str:
    return content_id("screen", number)


def _examples(rows: int, screens: int) -> pa.Table:
    """Trajectories of eight steps, three to a query, whose screens are drawn from the query's own few and from all."""
    draw = random.Random(1)
    dialect, frame = GuiOwlMobile(), native_frame(_SIZE)
    system = dialect.system_prompt(frame)
    made = []
    for row in range(rows):
        trajectory, step = divmod(row, _STEPS)
        query = trajectory // 3
        action = Click(x=draw.randrange(_SIZE.width), y=draw.randrange(_SIZE.height))
        screen = draw.randrange(screens) if draw.random() < 0.3 else (query * 11 + step) % screens
        history = "; ".join(f'Step {n}: Tapped "Something {n}" on the screen.' for n in range(1, step + 1))
        user = f"The user query: do the thing number {query}\nTask progress: {history}<image>"
        reply = dialect.render(Reply("It is the next thing to do.", action, f"Tapped number {row}."), frame)
        made.append(
            {
                "example_id": content_id("example", row),
                "kind": "end_to_end",
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": user},
                    {"role": "assistant", "content": reply},
                ],
                "screens": [_screen_id(screen)],
                "action": action.model_dump_json(),
                "coordinate_space": "resized_pixels",
                "loss_weight": 1.0,
                "query_id": content_id("query", query),
                "trajectory_id": content_id("trajectory", trajectory),
                "step_index": step,
                "split": Split.TRAIN.value,
                "round": 1,
                "run_id": "benchmark",
                "made_by": "benchmark",
                "code_version": "0",
                "schema_version": 1,
            }
        )
    return pa.Table.from_pylist(made, schema=arrow_schema("examples"))


if __name__ == "__main__":
    main()
