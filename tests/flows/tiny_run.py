"""One round of a few seconds, to be run in a folder, in a bucket and on other machines, with the same tables."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from trajmill.flows.configuration.config import (
    Config,
    EvaluateSection,
    JudgeSection,
    QueriesSection,
    RolloutSection,
    RunSection,
)
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.store.base import BucketUrl

_COMPARED = ("queries", "trajectories", "steps", "screens", "judgements", "examples", "rl_steps", "models")
_TIMES = ("written_at", "stages", "started_at", "ended_at")


def tiny_config(root: Path | BucketUrl, beam: BeamSettings | None = None, workers: int = 2) -> Config:
    """One round of a few seconds; the number of workers, and so of shards, changes no row."""
    return Config(
        run=RunSection(root=root, rounds=1, name="tiny"),
        queries=QueriesSection(train=8, heldout_slots=2, heldout_phrasings=2, heldout_apps=0, validation=2),
        rollout=RolloutSection(episodes_per_round=16, concurrency=4, store_after=4, workers=workers),
        judge=JudgeSection(precision_floor=0.0),
        train=EmbeddedSftSpec(min_updates=2, max_updates=4),
        evaluate=EvaluateSection(episodes=1, train_sample=2, promote_without_evidence=True),
        beam=beam or BeamSettings(),
    )


def contents(warehouse: Warehouse, table: str) -> list[dict[str, object]]:
    """The rows of a table without the times that no run repeats."""
    rows: pa.Table = read_table(warehouse, table)
    kept = [name for name in rows.column_names if name not in _TIMES and not name.endswith(("seconds", "_ms"))]
    return sorted(rows.select(kept).to_pylist(), key=str)


def assert_same(one: Warehouse, other: Warehouse, tables: Iterable[str] = _COMPARED) -> None:
    """Two runs have the same rows."""
    for table in tables:
        assert contents(one, table) == contents(other, table), table
