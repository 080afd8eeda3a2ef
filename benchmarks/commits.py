"""What the warehouse costs a round of the default job: writing shards, committing them, refreshing the DuckDB views.

Run: `python benchmarks/commits.py`. Writes rounds of 600 trajectories with 8 steps each and 400 new screens into a
temporary folder, stage by stage as the loop does, and prints milliseconds per round and per stage. A round of the
default job takes about 30 seconds, of which committing may take 2 % (600 ms).
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.views import refresh_views

_ROUNDS = 8
_TRAJECTORIES, _STEPS = 600, 8
_SCREENS, _SCREEN_BYTES, _ELEMENTS = 400, 9_000, 25
_SHARDS = 2
_STAGES: dict[str, dict[str, int]] = {
    "rollout": {"trajectories": _TRAJECTORIES, "steps": _TRAJECTORIES * _STEPS, "model_calls": 0},
    "judge": {
        "step_verdicts": _TRAJECTORIES * _STEPS,
        "trajectory_verdicts": 3 * _TRAJECTORIES,
        "judgements": _TRAJECTORIES,
    },
    "guide": {"guidance": 60},
    "guided": {"trajectories": 100, "steps": 100 * _STEPS},
    "judge-guided": {"step_verdicts": 100 * _STEPS, "trajectory_verdicts": 300, "judgements": 100},
    "derive": {"examples": 2_000, "rl_steps": 3_000},
    "evaluate": {"trajectories": 300, "steps": 300 * _STEPS},
    "promote": {"models": 1, "rounds": 1},
}
_ROUND_SECONDS = 30.0


class _Spent(NamedTuple):
    """Seconds that one stage of one round took."""

    stage: str
    write: float
    screens: float
    commit: float
    """Views included."""
    commit_cpu: float
    """CPU seconds of the same, which a busy machine does not change."""


def main() -> None:
    """Write the rounds and print what each part cost."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = create_warehouse(Path(folder) / "warehouse")
        print("ms per round   write shards  write screens  commit + views  (CPU)  of a 30 s round")
        for number in range(1, _ROUNDS + 1):
            spent = [_stage(warehouse, number, stage) for stage in _STAGES]
            commits = sum(part.commit for part in spent)
            print(
                f"round {number:<8}{_ms(sum(s.write for s in spent)):>13}{_ms(sum(s.screens for s in spent)):>15}"
                f"{_ms(commits):>16}{_ms(sum(s.commit_cpu for s in spent)):>7}{commits / _ROUND_SECONDS:>17.2%}"
            )
        print("\nlast round, ms  tables  commit + views")
        for part in spent:
            print(f"{part.stage:<16}{len(_STAGES[part.stage]):>6}{_ms(part.commit):>16}")
        _reads(warehouse)


def _reads(warehouse: Warehouse) -> None:
    print("\nreading, ms")
    with _Timer("refresh the views"):
        refresh_views(warehouse)
    with _Timer("SQL: steps per action kind, all rounds"):
        run_sql(warehouse, "SELECT action_kind, count(*) FROM steps GROUP BY ALL")
    with _Timer("steps of one round as Arrow"):
        read_table(warehouse, "steps", rounds=[_ROUNDS])
    with _Timer("index of all screens"):
        screens = WarehouseScreens(warehouse)
    ids = run_sql(warehouse, "SELECT screen_id FROM screens USING SAMPLE 200 ROWS (reservoir, 1)").column(0).to_pylist()
    with _Timer("200 images"):
        list(screens.images(ids))
    with _Timer("200 trees"):
        for screen_id in ids:
            screens.elements(screen_id)


class _Timer:
    """Prints the milliseconds that its block took."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        print(f"{self._name:<42}{_ms(time.perf_counter() - self._start):>8}")


def _stage(warehouse: Warehouse, number: int, stage: str) -> _Spent:
    at = StageRun("bench", number, stage)
    tables = {table: _rows(table, count, number) for table, count in _STAGES[stage].items()}
    if stage == "rollout":
        _journal_screens(warehouse, at)
    start = time.perf_counter()
    files = defaultdict(list)
    for table, rows in tables.items():
        for shard, part in enumerate(_split(rows)):
            files[table].append(write_shard(warehouse, table, at, part, f"{shard:05d}"))
    written = time.perf_counter()
    if stage == "rollout":
        origin = Origin(round=number, run_id=at.run_id, code_version="bench")
        files["screens"] = NewScreens(warehouse, at, origin, "bench").write()
    drawn, cpu = time.perf_counter(), time.process_time()
    commit_stage(warehouse, at, files)
    committed = time.perf_counter()
    return _Spent(stage, written - start, drawn - written, committed - drawn, time.process_time() - cpu)


def _split(rows: pa.Table) -> Sequence[pa.Table]:
    size = -(-rows.num_rows // _SHARDS)
    return [rows.slice(shard * size, size) for shard in range(_SHARDS)]


def _rows(table: str, count: int, number: int) -> pa.Table:
    """Rows with plausible sizes: ids and words that differ, so that nothing compresses to nothing."""
    draw = random.Random(number)
    schema = arrow_schema(table)
    columns = [pa.array([_value(field.type, draw, number) for _ in range(count)], field.type) for field in schema]
    rows = pa.Table.from_arrays(columns, schema=schema)
    place = schema.get_field_index("round")
    return rows.set_column(place, schema.field(place), pa.array([number] * count, pa.int32()))


def _value(kind: pa.DataType, draw: random.Random, number: int) -> Any:
    if pa.types.is_list(kind):
        return [_value(kind.value_type, draw, number) for _ in range(2)]
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, draw, number) for field in kind}
    if pa.types.is_string(kind):
        return f"{draw.getrandbits(96):024x} pressed the button"
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    return draw.randrange(100) if pa.types.is_integer(kind) else draw.random()


def _journal_screens(warehouse: Warehouse, at: StageRun) -> None:
    draw = random.Random(at.round)
    journal = ScreenJournal(journal_path(warehouse, at, "00000"))
    for screen in range(_SCREENS):
        elements = tuple(
            UIElement("button", f"Item {draw.randrange(999)}", Box(0, place, 700, place + 40), ("clickable",))
            for place in range(_ELEMENTS)
        )
        pixels = draw.randbytes(_SCREEN_BYTES)
        handle = ScreenHandle(content_id(at.round, screen), Size(720, 1280), lambda pixels=pixels: pixels)  # type: ignore[misc]
        journal.append(Observation(handle, elements, "app"))
    journal.close()


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


if __name__ == "__main__":
    main()
