"""Rows and observations that the warehouse tests share."""

from typing import Any

from PIL import Image

from tests.records import record
from tests.stages.models.pictures import as_png
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.tables.policy_version import JudgeQuality, RoundSummary, SplitSuccess, StageCount
from trajmill.schemas.tables.query import PathStep, Query, Slot, Split
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepLabel, StepVerdict
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import table_of
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.sql import run_sql

SIZE = Size(32, 48)


def stage_run(stage: str = "rollout", number: int = 1, run_id: str = "run-a", attempt: int = 0) -> StageRun:
    return StageRun(run_id=run_id, round=number, stage=stage, attempt=attempt)


def png(shade: int) -> bytes:
    return as_png(Image.new("RGB", SIZE, (shade % 256, shade // 256, 7)))


def observation(shade: int) -> Observation:
    """A screen of one colour with two elements; equal shades are the same screen."""
    elements = (
        UIElement("heading", f"Screen {shade}", Box(0, 0, 32, 8), ("title",)),
        UIElement("button", "Öffnen", Box(1, 9, 30, 20), ("clickable",), str(shade), f"app.s{shade}/open"),
    )
    return Observation(ScreenHandle(content_id("screen", shade), SIZE, lambda: png(shade)), elements, "app")


def step_verdicts(count: int, at: StageRun, start: int = 0) -> list[StepVerdict]:
    said = {"analysis": "because it opened the menu", "summary": "opened the menu", "label": StepLabel.GOOD}
    made = said | at_origin(at) | {"made_by": "critic-v1"}
    return [
        record(StepVerdict, trajectory_id=content_id(at.run_id, at.round, number), index=number, **made)
        for number in range(start, start + count)
    ]


def trajectory(number: int, at: StageRun, query_id: str, **changes: object) -> Trajectory:
    named = {"trajectory_id": content_id("trajectory", at.run_id, at.round, number), "query_id": query_id}
    by = {"agent": "end_to_end", "model_version": "policy-1", "environment": "simulated", "seed": number}
    ended = {"status": "finished", "reward": 1.0, "steps": 4, "wall_ms": 1.5, "environment_ms": 0.5}
    tokens = {"input_tokens": 10, "output_tokens": 5}
    made = named | by | ended | tokens | at_origin(at) | {"made_by": "rollout"}
    return record(Trajectory, **made | changes)


def query(name: str, at: StageRun, split: Split = Split.TRAIN) -> Query:
    said = {"raw_instruction": "send a mail", "instruction": f"Send the mail {name}", "phrasing": "p1"}
    shown = {"pages": ("mail.inbox",), "page_descriptions": ("all mails",), "apps": ("mail",), "task": "mail.send"}
    slots = (Slot(name="to", value="Ann", said="Ann", page="mail.inbox"),)
    path = (PathStep(page="mail.inbox", operation="tap", target="mail.inbox/new"),)
    states = {"start_state": "{}", "goal": "{}", "max_steps": 10, "difficulty": 1, "validation": "passed"}
    made = said | shown | states | at_origin(at)
    return record(Query, query_id=name, split=split, slots=slots, path=path, **made)


def judgement(trajectory_id: str, at: StageRun, correct: bool, made_by: str = "judge-v1") -> Judgement:
    named = {"trajectory_id": trajectory_id, **at_origin(at), "made_by": made_by}
    return record(Judgement, correct=correct, rule="consensus(text,multimodal)", agreed=True, **named)


def round_summary(at: StageRun) -> RoundSummary:
    level, step = {"level": "trajectory", "true_positive": 40, "false_positive": 10}, {"level": "step"}
    return record(
        RoundSummary,
        policy_before="policy-0",
        policy_after="policy-1",
        stages=(
            StageCount(stage="rollout", rows_in=100, rows_out=90, seconds=3.0, cost=0.5),
            StageCount(stage="judge", rows_in=90, rows_out=60, seconds=1.0, cost=0.25),
        ),
        success_after=(SplitSuccess(split="train", queries=4, successes=2),),
        judge=(
            record(JudgeQuality, **level, true_negative=30, false_negative=20),
            record(JudgeQuality, **step, true_negative=5),
        ),
        trained=True,
        release="release-1",
        **at_origin(at),
    )


def at_origin(at: StageRun) -> dict[str, Any]:
    return Origin(round=at.round, run_id=at.run_id, code_version="test").common("sample")


def commit_rows(warehouse: Warehouse, at: StageRun, *rows: Row) -> None:
    """Commit records, all in the tables that they belong to."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(table_of(type(row)), []).append(row)
    commit_stage(warehouse, at, write_tables(warehouse, at, tables))


def ask(warehouse: Warehouse, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_sql(warehouse, text).to_pylist()
    return rows


def commit_rounds(warehouse: Warehouse, count: int, rows: int) -> None:
    """Commit step verdicts of so many rounds, each in a version of its own."""
    for number in range(1, count + 1):
        at = stage_run("judge", number)
        commit_rows(warehouse, at, *step_verdicts(rows, at))
