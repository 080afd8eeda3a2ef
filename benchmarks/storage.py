"""What sharing rows between releases, joining small files and indexing save, on a small generated warehouse.

    python -m benchmarks.storage --rounds 8 --rows 600 --image-bytes 20000
    python -m benchmarks.storage --bucket     # a folder against a bucket

Each round adds rows and a release takes most rows of the rounds before, as those of the default job do. Seconds are CPU
seconds of this process: the machine may be shared.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import tempfile
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import pyarrow as pa
from moto.server import ThreadedMotoServer
from rich.console import Console
from rich.table import Table

from trajmill.pipelines.reading.examples import ExampleSet, StoredExamples
from trajmill.pipelines.release import ReleaseRows, share_rows
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.curate.training_set import digests_of
from trajmill.stages.export.exporter import exporter_spec
from trajmill.stages.export.release import export_release
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import write_release
from trajmill.warehouse.screens import NewScreens, WarehouseScreens, stored_screen_journal
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep import compact

_RUN = "benchmark"
_STEPS = 8
_KEPT = 0.9
"""Share of the earlier rows that the next release takes again."""
_SHARDS_PER_ROUND = 4


class Line(NamedTuple):
    """One line of the table."""

    what: str
    seconds: float | None
    megabytes: float | None = None


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--rows", type=int, default=600)
    options.add_argument("--image-bytes", type=int, default=20_000)
    options.add_argument(
        "--bucket", action="store_true", help="compare a folder with a bucket of moto's server instead"
    )
    given = options.parse_args()
    if given.bucket:
        _compare_with_bucket(given.rounds, given.rows, given.image_bytes)
        return
    table = Table("what", "CPU s", "MB")
    with tempfile.TemporaryDirectory() as folder:
        warehouse = create_warehouse(Path(folder) / "root")
        offered = [_round(warehouse, number, given.rows, given.image_bytes) for number in range(1, given.rounds + 1)]
        for line in [*_releases(warehouse, offered), *_joining(warehouse)]:
            seconds = "" if line.seconds is None else f"{line.seconds:.2f}"
            table.add_row(line.what, seconds, "" if line.megabytes is None else f"{line.megabytes:.1f}")
    Console().print(table)


def _compare_with_bucket(rounds: int, rows: int, image_bytes: int) -> None:
    """The same work in a folder and in a bucket, in seconds of the clock; the server runs in this process."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    table = Table("what", "folder s", "bucket s")
    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"http://{host}:{port}"
        os.environ.update(AWS_ENDPOINT_URL=endpoint, AWS_ALLOW_HTTP="true", AWS_REGION="us-east-1")
        os.environ.update(AWS_ACCESS_KEY_ID="anybody", AWS_SECRET_ACCESS_KEY="anything", XDG_CACHE_HOME=folder)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/benchmark", method="PUT")).close()
        places = (Path(folder) / "root", "s3://benchmark/root")
        timed = [_timed(create_warehouse(place), rounds, rows, image_bytes) for place in places]
        for local, remote in zip(*timed, strict=True):
            table.add_row(local.what, f"{local.seconds:.3f}", f"{remote.seconds:.3f}")
    server.stop()
    Console().print(table)


def _timed(warehouse: Warehouse, rounds: int, rows: int, image_bytes: int) -> list[Line]:
    query = "SELECT round, count(*), count(DISTINCT trajectory_id) FROM examples GROUP BY 1"
    writing = [_clock(partial(_round, warehouse, number, rows, image_bytes)) for number in range(1, rounds + 1)]
    run_sql(warehouse, query)
    screens = WarehouseScreens(warehouse)
    shown = sorted(read_table(warehouse, "examples", ["screens"])["screens"].combine_chunks().flatten().to_pylist())
    return [
        Line("write and commit a round", sum(writing) / rounds),
        Line("read a column of all rows", _clock(lambda: read_table(warehouse, "examples", ["query_id"]))),
        Line("SQL over all rows, second time", _clock(lambda: run_sql(warehouse, query))),
        Line("find all screens", _clock(lambda: WarehouseScreens(warehouse))),
        Line("64 images", _clock(lambda: list(screens.images(shown[:64])))),
        Line("64 images, second time", _clock(lambda: list(screens.images(shown[:64])))),
    ]


def _clock(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _releases(warehouse: Warehouse, offered: list[pa.Table]) -> Iterable[Line]:
    """The releases of all rounds, each with all of its rows, then with shared ones."""
    exporters, draw = [exporter_spec("trl")], random.Random(0)
    chosen = []
    for number in range(len(offered)):
        rows = pa.concat_tables(offered[: number + 1])
        old = rows.num_rows - offered[number].num_rows
        taken = [row for row in range(rows.num_rows) if row >= old or draw.random() < _KEPT]
        chosen.append(rows.take(pa.array(taken, pa.int64())))
    whole = warehouse.root / "whole"
    for number, rows in enumerate(chosen, 1):
        seconds = _cpu(partial(_export, whole / str(number), exporters, rows, warehouse))
        if number in (1, len(chosen)):
            yield Line(f"release of round {number}, all rows written", seconds)
    yield Line("all releases, all rows written", None, _megabytes(whole))
    for number, rows in enumerate(chosen, 1):
        stored = StoredExamples(warehouse, _RUN, ExampleSet({"kind": ["end_to_end"]}, 1).where, digests_of(rows))
        seconds = _cpu(partial(_share, warehouse, number, ReleaseRows(stored, exporters)))
        if number in (1, len(chosen)):
            yield Line(f"release of round {number}, rows shared", seconds)
    yield Line("all releases, rows shared", None, _megabytes(warehouse.root / "shards", warehouse.root / "releases"))


def _export(folder: Path, exporters: list[Any], rows: pa.Table, warehouse: Warehouse) -> None:
    export_release(folder, exporters, {"examples": rows.to_batches()}, WarehouseScreens(warehouse))


def _share(warehouse: Warehouse, number: int, wanted: ReleaseRows) -> None:
    name = f"r{number}"
    shared = share_rows(warehouse, _RUN, number, warehouse.release(name), wanted)
    origin = Origin(run_id=_RUN, round=number, code_version="0")
    write_release(warehouse, name, origin, {}, "", shards=shared.files)


def _joining(warehouse: Warehouse) -> Iterable[Line]:
    """A query over many small files, and over the few that they are joined to."""
    query = "SELECT round, count(*), count(DISTINCT trajectory_id) FROM examples GROUP BY 1"
    run_sql(warehouse, query)
    yield Line(f"SQL over {len(_files(warehouse))} files", _cpu(lambda: run_sql(warehouse, query)))
    yield Line("compact", _cpu(lambda: compact(warehouse)))
    run_sql(warehouse, query)
    yield Line("SQL afterwards", _cpu(lambda: run_sql(warehouse, query)))


def _files(warehouse: Warehouse) -> list[Path]:
    return list(warehouse.table("examples").glob("*.parquet"))


def _cpu(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def _megabytes(*folders: Path) -> float:
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()) / 1e6


def _round(warehouse: Warehouse, number: int, rows: int, image_bytes: int) -> pa.Table:
    """Commit the examples and screens of one round; each row shows a screen, half of them one that no other shows."""
    at, draw = StageRun(_RUN, number, "derive"), random.Random(number)
    shown = []
    with stored_screen_journal(warehouse, at, "00000") as journal:
        for row in range(rows):
            screen_id = content_id("screen", number, row if row % 2 else row // 20)
            journal.append(_observation(screen_id, draw.randbytes(image_bytes)))
            shown.append(screen_id)
    examples = pa.Table.from_pylist(
        [_example(number, row, screen_id) for row, screen_id in enumerate(shown)], schema=arrow_schema("examples")
    )
    size = -(-rows // _SHARDS_PER_ROUND)
    files = [
        write_shard(warehouse, "examples", at, examples.slice(start, size), f"{start:05d}")
        for start in range(0, rows, size)
    ]
    origin = Origin(round=number, run_id=_RUN, code_version="0")
    commit_stage(warehouse, at, {"screens": NewScreens(warehouse, at, origin, "benchmark").write(), "examples": files})
    return examples


def _observation(screen_id: str, image: bytes) -> Observation:
    return Observation(ScreenHandle(screen_id, Size(720, 1280), lambda: image), (), "")


def _example(number: int, row: int, screen_id: str) -> dict[str, object]:
    words = f"The user query: do the thing number {row}\nTask progress: {'Tapped it. ' * (row % _STEPS)}<image>"
    reply = f"It is the next thing to do. Tapped number {row} in round {number}."
    return {
        "example_id": content_id("example", number, row),
        "kind": "end_to_end",
        "messages": [{"role": "user", "content": words}, {"role": "assistant", "content": reply}],
        "screens": [screen_id],
        "action": None,
        "coordinate_space": "resized_pixels",
        "loss_weight": 1.0,
        "query_id": content_id("query", row // _STEPS),
        "trajectory_id": content_id("trajectory", number, row // _STEPS),
        "step_index": row % _STEPS,
        "split": Split.TRAIN.value,
        "round": number,
        "run_id": _RUN,
        "made_by": "benchmark",
        "code_version": "0",
        "schema_version": 1,
    }


if __name__ == "__main__":
    main()
