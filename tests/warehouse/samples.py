"""Rows and observations that the warehouse tests share."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from PIL import Image

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.tables.policy_version import JudgeQuality, RoundSummary, SplitSuccess, StageCount
from trajmill.schemas.tables.query import PathStep, Platform, Query, Slot, Source, Split
from trajmill.schemas.tables.trajectory import Purpose, StopReason, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepLabel, StepVerdict
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import table_of
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.views import refresh_views

SIZE = Size(32, 48)


def stage_run(stage: str = "rollout", number: int = 1, run_id: str = "run-a", attempt: int = 0) -> StageRun:
    return StageRun(run_id=run_id, round=number, stage=stage, attempt=attempt)


def png(shade: int) -> bytes:
    encoded = BytesIO()
    Image.new("RGB", SIZE, (shade % 256, shade // 256, 7)).save(encoded, "PNG")
    return encoded.getvalue()


def observation(shade: int) -> Observation:
    """A screen of one colour with two elements; equal shades are the same screen."""
    elements = (
        UIElement("heading", f"Screen {shade}", Box(0, 0, 32, 8), ("title",)),
        UIElement("button", "Öffnen", Box(1, 9, 30, 20), ("clickable",), str(shade), f"app.s{shade}/open"),
    )
    return Observation(ScreenHandle(content_id("screen", shade), SIZE, lambda: png(shade)), elements, "app")


def step_verdicts(count: int, at: StageRun, start: int = 0) -> list[StepVerdict]:
    return [
        StepVerdict(
            trajectory_id=content_id(at.run_id, at.round, number),
            index=number,
            analysis="because it opened the menu",
            summary="opened the menu",
            label=StepLabel.GOOD,
            round=at.round,
            run_id=at.run_id,
            made_by="critic-v1",
            code_version="test",
        )
        for number in range(start, start + count)
    ]


def trajectory(number: int, at: StageRun, query_id: str, **changes: object) -> Trajectory:
    values: dict[str, object] = {
        "trajectory_id": content_id("trajectory", at.run_id, at.round, number),
        "query_id": query_id,
        "agent": "end_to_end",
        "model_version": "policy-1",
        "environment": "simulated",
        "seed": number,
        "attempt": 0,
        "purpose": Purpose.TRAIN,
        "guidance_id": None,
        "status": "finished",
        "stop_reason": StopReason.AGENT_DONE,
        "failure_class": None,
        "failure_message": None,
        "answer": None,
        "reward": 1.0,
        "steps": 4,
        "input_tokens": 10,
        "output_tokens": 5,
        "wall_ms": 1.5,
        "environment_ms": 0.5,
        "round": at.round,
        "run_id": at.run_id,
        "made_by": "rollout",
        "code_version": "test",
    }
    return Trajectory.model_validate(values | changes)


def query(name: str, at: StageRun, split: Split = Split.TRAIN) -> Query:
    return Query(
        query_id=name,
        platform=Platform.PHONE,
        apps=("mail",),
        source=Source.DAG,
        task="mail.send",
        raw_instruction="send a mail",
        instruction=f"Send the mail {name}",
        phrasing="p1",
        pages=("mail.inbox",),
        page_descriptions=("all mails",),
        slots=(Slot(name="to", value="Ann", said="Ann", page="mail.inbox"),),
        path=(PathStep(page="mail.inbox", operation="tap", target="mail.inbox/new"),),
        start_state="{}",
        goal="{}",
        difficulty=1,
        max_steps=10,
        split=split,
        validation="passed",
        **at_origin(at),
    )


def judgement(trajectory_id: str, at: StageRun, correct: bool, made_by: str = "judge-v1") -> Judgement:
    return Judgement(
        trajectory_id=trajectory_id,
        correct=correct,
        rule="consensus(text,multimodal)",
        agreed=True,
        redundant_steps=(),
        first_error_step=None,
        **at_origin(at) | {"made_by": made_by},
    )


def round_summary(at: StageRun) -> RoundSummary:
    return RoundSummary(
        policy_before="policy-0",
        policy_after="policy-1",
        stages=(
            StageCount(stage="rollout", rows_in=100, rows_out=90, seconds=3.0, cost=0.5),
            StageCount(stage="judge", rows_in=90, rows_out=60, seconds=1.0, cost=0.25),
        ),
        success_before=(),
        success_after=(SplitSuccess(split="train", queries=4, successes=2),),
        judge=(
            JudgeQuality(level="trajectory", true_positive=40, false_positive=10, true_negative=30, false_negative=20),
            JudgeQuality(level="step", true_positive=0, false_positive=0, true_negative=5, false_negative=0),
        ),
        trained=True,
        reference_paths_used=0,
        release="release-1",
        **at_origin(at),
    )


def at_origin(at: StageRun) -> dict[str, Any]:
    return Origin(round=at.round, run_id=at.run_id, code_version="test").common("sample")


def commit_rows(warehouse: Warehouse, at: StageRun, *rows: Row) -> None:
    """Commit records, all in the tables that they belong to, and renew the views."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(table_of(type(row)), []).append(row)
    commit_stage(warehouse, at, write_tables(warehouse, at, tables))
    refresh_views(warehouse)


def commit_rounds(warehouse: Warehouse, count: int, rows: int) -> None:
    """Commit step verdicts of so many rounds, each in a version of its own."""
    for number in range(1, count + 1):
        at = stage_run("judge", number)
        commit_rows(warehouse, at, *step_verdicts(rows, at))
