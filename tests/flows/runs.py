"""Small but whole runs for tests of flows: their configurations, their stages, and a judge behind a real server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import BaseModel

from trajmill.flows.configuration.config import (
    Config,
    EvaluateSection,
    GuidanceSection,
    JudgeSection,
    NamedJudgeSection,
    QueriesSection,
    RolloutSection,
    RunSection,
)
from trajmill.flows.round import STAGES, do_stage
from trajmill.flows.stage import RoundContext, StageReport
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.errors import TrajmillError
from trajmill.stages.derive.spec import DeriveSpec, PlanningSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse import staging
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.store.base import BucketUrl

if TYPE_CHECKING:
    import pytest

_COMPARED = ("queries", "trajectories", "steps", "screens", "judgements", "examples", "rl_steps", "models")
_TIMES = ("written_at", "stages", "started_at", "ended_at")
_ANSWERS = {"analysis": "it moved", "summary": "moved on", "label": "GOOD", "reason": "looks done"}


def changed(config: Config, **tables: object) -> Config:
    """Another configuration, unchecked: a mapping changes keys of its table, whatever else takes the table's place."""

    def table(name: str, new: object) -> object:
        old = getattr(config, name)
        return old.model_copy(update=new) if isinstance(old, BaseModel) and isinstance(new, dict) else new

    return config.model_copy(update={name: table(name, new) for name, new in tables.items()})


def small_config(root: Path, rounds: int = 2) -> Config:
    """A configuration whose rounds take a few seconds."""
    return Config(
        run=RunSection(root=root, rounds=rounds, name="small", seed=17),
        queries=QueriesSection(train=8, heldout_slots=1, heldout_phrasings=1, heldout_apps=0, validation=2),
        rollout=RolloutSection(episodes_per_round=16, concurrency=16, group_size=4),
        judge=JudgeSection(precision_floor=0.0),
        guidance=GuidanceSection(after_failures=1, share=0.4),
        train=EmbeddedSftSpec(min_updates=5, max_updates=10),
        evaluate=EvaluateSection(episodes=1, train_sample=2, promote_without_evidence=True),
        # Trials of manuals would double the attempts of each test that derives them.
        derive=DeriveSpec(planning=PlanningSpec(trials=0)),
    )


def tiny_config(root: Path | BucketUrl, beam: BeamSettings | None = None, workers: int = 2) -> Config:
    """One round of a few seconds, to be run in a folder, in a bucket and on other machines, with the same tables.

    The number of workers, and so of shards, changes no row.
    """
    return Config(
        run=RunSection(root=root, rounds=1, name="tiny", seed=3),
        queries=QueriesSection(train=4, heldout_slots=1, heldout_phrasings=1, heldout_apps=0, validation=1),
        rollout=RolloutSection(episodes_per_round=8, concurrency=2, store_after=2, workers=workers),
        judge=JudgeSection(precision_floor=0.0),
        train=EmbeddedSftSpec(min_updates=1, max_updates=2),
        evaluate=EvaluateSection(episodes=1, train_sample=1, promote_without_evidence=True),
        beam=beam or BeamSettings(),
    )


def judged_config(root: Path, episodes: int = 8) -> Config:
    """A small run whose rounds have few episodes, as judging them again takes long."""
    queries = {"train": 6, "heldout_phrasings": 0, "validation": 0}
    rollout, measured = {"episodes_per_round": episodes}, EvaluateSection(episodes=1, train_sample=1)
    return changed(small_config(root), queries=queries, rollout=rollout, evaluate=measured)


def trained_config(root: Path) -> Config:
    """A small run that is measured on few queries, as its policies are trained again and again."""
    queries = {"heldout_phrasings": 0, "validation": 4}
    rollout = {"episodes_per_round": 12, "group_size": 2}
    return changed(small_config(root, 1), queries=queries, rollout=rollout, evaluate={"train_sample": 0})


def smallest_config(root: Path, rounds: int = 1) -> Config:
    """A run of a few seconds, for what a round needs to be there and to be finished."""
    queries = {"train": 4, "heldout_phrasings": 0, "validation": 1}
    rollout, train = {"episodes_per_round": 4, "group_size": 2}, EmbeddedSftSpec(min_updates=1, max_updates=1)
    guidance, measured = {"enabled": False}, {"train_sample": 0}
    return changed(
        small_config(root, rounds), queries=queries, rollout=rollout, guidance=guidance, train=train, evaluate=measured
    )


def do(name: str, context: RoundContext) -> StageReport:
    """One stage."""
    return do_stage(next(stage for stage in STAGES if stage.name == name), context)


def up_to(name: str, context: RoundContext) -> StageReport:
    """All stages up to one; the report of that one."""
    reports = [do_stage(stage, context) for stage in STAGES[: [stage.name for stage in STAGES].index(name) + 1]]
    return reports[-1]


def first_waiting(context: RoundContext) -> StageReport | None:
    """Do the stages of a round up to the first one that waits."""
    return next((report for stage in STAGES if (report := do_stage(stage, context)).waiting), None)


def killed_before_marker(monkeypatch: pytest.MonkeyPatch, stage: str = "") -> list[str]:
    """Stages die once, after their rows are committed and before they are marked done; empty for any stage.

    The list has the name of the staging folder in which one died.
    """
    died: list[str] = []

    def mark_done(warehouse: Warehouse, folder: Path, key: str, result: Any) -> Any:
        if not died and folder.name.endswith(stage):
            died.append(folder.name)
            raise TrajmillError("killed")
        return staging.mark_done(warehouse, folder, key, result)

    monkeypatch.setattr("trajmill.flows.stage.mark_done", mark_done)
    return died


def run_stages(config: Config) -> None:
    """All stages of all rounds, without Prefect."""
    warehouse = create_warehouse(config.run.root)
    for number in range(1, config.run.rounds + 1):
        for stage in STAGES:
            do_stage(stage, RoundContext(config, warehouse, number))


def contents(warehouse: Warehouse, table: str) -> list[dict[str, object]]:
    """The rows of a table without the times that no run repeats."""
    rows: pa.Table = read_table(warehouse, table)
    kept = [name for name in rows.column_names if name not in _TIMES and not name.endswith(("seconds", "_ms"))]
    return sorted(rows.select(kept).to_pylist(), key=str)


def assert_same(one: Warehouse, other: Warehouse, tables: Iterable[str] = _COMPARED) -> None:
    """Two runs have the same rows."""
    for table in tables:
        assert contents(one, table) == contents(other, table), table


def config_with_judges(root: Path, url: str, **big: object) -> Config:
    """The judged run, with the judges `big` (two models, two resolutions) and `plain` (the embedded critics)."""
    voting = {"votes": 2, "resolutions": (0.25, 0.5), "tries": 1, "text": ("tiny",), "multimodal": ("tiny", "other")}
    return changed(
        judged_config(root),
        endpoints=endpoints_at(url),
        judges={"big": NamedJudgeSection.model_validate(voting | big), "plain": NamedJudgeSection()},
    )


def endpoints_at(url: str) -> dict[str, OpenAiSpec]:
    """The models `tiny` and `other` of a server."""
    return {name: OpenAiSpec(model=name, urls=(url,), attempts=1, max_pixels=50_000) for name in ("tiny", "other")}


def opinion(body: dict[str, Any]) -> str:
    """A valid answer to any critic's question: `tiny` finds everything correct, `other` what has an even length."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    correct = body["model"] == "tiny" or len(json.dumps(body["messages"])) % 2 == 0
    answers: dict[str, object] = _ANSWERS | {"correct": correct, "redundant_steps": [], "first_error_step": None}
    return json.dumps({name: answers[name] for name in fields})
