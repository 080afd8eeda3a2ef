"""Rows per second and memory of writing training rows with their images: ours, and three other ways to do it.

    trajmill evolve && python -m benchmarks.export_rivals trajmill-data --rounds 1 2 3

Each reads the committed examples and screens of some rounds, and writes one Parquet file with prompt, completion, image
and origin of each row: the exporter of a release (its file `trl/sft.parquet`, with the screens' trees and hashes beside
it), DuckDB's COPY of a join, `datasets` with `map` and `to_parquet`, and a plain pyarrow loop that holds all images.
Each is a process of its own; the work is measured without imports, the peak is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.flows.cli.app import give_memory_back
from trajmill.pipelines.reading.examples import ExampleSet
from trajmill.schemas.tables.screen import IMAGE
from trajmill.stages.derive.step_data import KIND as END_TO_END
from trajmill.stages.export.exporter import LINEAGE, exporter_spec
from trajmill.stages.export.release import export_release
from trajmill.warehouse.delta_log import committed_files, committed_names
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_batches
from trajmill.warehouse.screens import WarehouseScreens

_ROWS = 64
_KIND = ExampleSet({"kind": ["end_to_end"]}, 1).where


class Given(NamedTuple):
    """What is to be written, and where."""

    warehouse: Warehouse
    rounds: Sequence[int]
    folder: Path

    @property
    def examples(self) -> list[str]:
        """The files of the rows; with `screens` all that the other ways know of the warehouse."""
        names = committed_names(self.warehouse, "examples", rounds=self.rounds, where=_KIND)
        return [self.warehouse.store.uri(name) for name in names]

    @property
    def screens(self) -> list[str]:
        """The files of the screens."""
        return [str(path) for path in committed_files(self.warehouse, "screens")]


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--rounds", type=int, nargs="+", default=[1])
    options.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS))
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        _do(open_warehouse(given.root), given.rounds, given.one)
        return
    give_memory_back()
    print("| way | rows | s | CPU s | rows/CPU s | peak MiB, before the work | MB written |", flush=True)
    print("|---|---|---|---|---|---|---|")
    for way in given.only:
        command = [sys.executable, "-m", "benchmarks.export_rivals", str(given.root), "--one", way, "--rounds"]
        said = subprocess.run([*command, *map(str, given.rounds)], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows, seconds, cpu, before, peak, megabytes = json.loads(said.splitlines()[-1])
        print(
            f"| {way} | {rows:,} | {seconds:.2f} | {cpu:.2f} | {rows / cpu:,.0f} "
            f"| {peak:,.0f}, {before:,.0f} | {megabytes:,.0f} |",
            flush=True,
        )


def _do(warehouse: Warehouse, rounds: Sequence[int], way: str) -> None:
    """Write the rows in one way, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        work = WAYS[way](Given(warehouse, rounds, Path(folder)))
        before, start, cpu = _peak_mib(), perf_counter(), sum(os.times()[:4])
        path = work()
        seconds, spent = perf_counter() - start, sum(os.times()[:4]) - cpu
        rows, megabytes = pq.read_metadata(path).num_rows, path.stat().st_size / 1e6
        print(json.dumps([rows, seconds, spent, before, _peak_mib(), megabytes]))


def _peak_mib() -> float:
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


Work = Callable[[], Path]
"""Writes the rows and returns the file."""


def _ours(given: Given) -> Work:
    exporters = [exporter_spec("trl")]

    def work() -> Path:
        rows = read_batches(given.warehouse, "examples", rounds=given.rounds, where=_KIND)
        ids = read_batches(given.warehouse, "examples", ["screens"], rounds=given.rounds, where=_KIND)
        shown = {screen for batch in ids for screen in batch["screens"].flatten().unique().to_pylist()}
        screens = WarehouseScreens(given.warehouse)
        [file, _] = export_release(given.folder, exporters, {"examples": rows}, screens, shown=shown)
        return given.folder / file.path

    return work


def _copy(given: Given) -> Work:
    import duckdb

    path = given.folder / "copy.parquet"
    query = f"""
        COPY (
            SELECT messages[:-2] AS prompt, messages[-1:] AS completion, [image] AS images, screens AS screen_ids,
                {", ".join(f"example.{name}" for name in LINEAGE)}
            FROM read_parquet({given.examples}) AS example
            JOIN read_parquet({given.screens}) AS screen ON screen.screen_id = example.screens[1]
            WHERE example.round IN {(*given.rounds, -1)} AND example.kind = '{END_TO_END}'
        ) TO '{path}' (FORMAT parquet, COMPRESSION zstd)
    """

    def work() -> Path:
        duckdb.connect().execute(query)
        return path

    return work


def _datasets(given: Given) -> Work:
    from datasets import Image, load_dataset
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    path, cache = given.folder / "datasets.parquet", str(given.folder / "cache")

    def loaded(files: list[str], columns: list[str]) -> Any:
        return load_dataset("parquet", data_files=files, columns=columns, split="train", cache_dir=cache)

    def work() -> Path:
        screens = loaded(given.screens, ["screen_id", "image"]).cast_column("image", Image(decode=False))
        places = {screen_id: place for place, screen_id in enumerate(screens["screen_id"])}
        examples = loaded(given.examples, [*LINEAGE, "messages", "screens"])

        def with_images(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
            shown = screens[[places[ids[0]] for ids in rows["screens"]]]["image"]
            return {
                "prompt": [messages[:-1] for messages in rows["messages"]],
                "completion": [messages[-1:] for messages in rows["messages"]],
                "images": [[image] for image in shown],
                "screen_ids": rows["screens"],
            }

        made = examples.map(with_images, batched=True, batch_size=_ROWS, remove_columns=["messages", "screens"])
        made.to_parquet(str(path), batch_size=_ROWS)
        return path

    return work


def _plain(given: Given) -> Work:
    import pyarrow.dataset as ds

    path = given.folder / "plain.parquet"

    def work() -> Path:
        images: dict[str, Any] = {}
        for file in given.screens:
            columns = pq.read_table(file, columns=["screen_id", "image"], partitioning=None)
            images.update(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        writer = None
        stored = ds.dataset(given.examples, format="parquet")
        for batch in stored.to_batches(columns=[*LINEAGE, "messages", "screens"], batch_size=_ROWS):
            messages, shown = batch["messages"].to_pylist(), batch["screens"].to_pylist()
            kind = batch.schema.field("messages").type
            made = pa.table(
                {
                    "prompt": pa.array([each[:-1] for each in messages], kind),
                    "completion": pa.array([each[-1:] for each in messages], kind),
                    "images": pa.array([[images[name] for name in ids] for ids in shown], pa.list_(IMAGE)),
                    "screen_ids": batch["screens"],
                    **{name: batch[name] for name in LINEAGE},
                }
            )
            writer = writer or pq.ParquetWriter(path, made.schema, compression="zstd")
            writer.write_table(made)
        if writer is not None:
            writer.close()
        return path

    return work


WAYS: dict[str, Callable[[Given], Work]] = {
    "trajmill": _ours,
    "DuckDB COPY": _copy,
    "datasets map": _datasets,
    "plain pyarrow": _plain,
}
"""By name, what prepares the work that is measured."""


if __name__ == "__main__":
    main()
