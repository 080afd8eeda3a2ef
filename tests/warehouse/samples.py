"""Rows and observations that the warehouse tests share."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from schemas.geometry import Box, Size
from schemas.observation import Observation, ScreenHandle, UIElement
from schemas.record import content_id
from schemas.trajectory import Purpose, StopReason, Trajectory
from schemas.verdict import StepLabel, StepVerdict
from warehouse.layout import StageRun

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
