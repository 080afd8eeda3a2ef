"""A warehouse whose texts try to become a page, and a viewer of it on a free port."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from tests.warehouse.samples import SIZE, at_origin, commit_rows, judgement, png, query, stage_run, trajectory
from trajmill.flows.serving.listening import listening
from trajmill.flows.viewer.app import viewer_app
from trajmill.schemas.actions import Action, Click, Swipe, Terminate, action_to_json
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, TargetElement
from trajmill.schemas.tables.verdict import Channel, Judgement, StepLabel, StepVerdict, TrajectoryVerdict
from trajmill.warehouse.layout import Warehouse, create_warehouse

RUN = "run-a"
AT = stage_run(run_id=RUN)
HOSTILE = (
    "<script>window.hit=1</script><img src=x onerror='window.hit=2'><style>*{display:none}</style>"
    "<svg onload='window.hit=3'></svg>\" onmouseover=\"window.hit=4\" ' javascript:window.hit=5 \x1b[31m\u202e"
)
ACTIONS: tuple[Action, ...] = (Click(x=8, y=36), Swipe(x=4, y=40, x2=28, y2=10), Terminate(status="success"))
COUNT = 7
"""Attempts at the first query."""


def write_hostile_run(warehouse: Warehouse) -> None:
    """Commit some attempts at two queries; every text of the first attempt is hostile."""
    first = query("q-0", AT).model_copy(update={"instruction": HOSTILE, "task": HOSTILE, "apps": (HOSTILE, "mail")})
    rows: list[Row] = [first, query("q-1", AT, Split.HELDOUT_APPS), *(_screen(number) for number in range(4))]
    for number in range(COUNT):
        rows += _attempt(number)
    rows.append(trajectory(COUNT, AT, "q-1", purpose=Purpose.EVALUATE, reward=0.0, steps=9, model_version="policy-2"))
    rows += [_hints(), _call()]
    commit_rows(warehouse, AT, *rows)
    again = stage_run("judge-again", run_id=RUN)
    second = judgement(name(0), again, correct=False, made_by="second")
    commit_rows(warehouse, again, Judgement(**second.model_dump() | {"judge": "strict", "judge_id": "s"}))


def name(number: int) -> str:
    """The id of a trajectory."""
    return trajectory(number, AT, "q-0").trajectory_id


@contextmanager
def serving(warehouse: Warehouse, token: str = "") -> Iterator[str]:
    """Inside, the address of a viewer."""
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(viewer_app(warehouse, token), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(200)


def _attempt(number: int) -> list[Row]:
    words = HOSTILE if number == 0 else f"attempt {number}"
    changes: dict[str, object] = {
        "answer": words,
        "steps": len(ACTIONS),
        "reward": float(number % 2),
        "guidance_id": "hint",
    }
    if number == 3:
        changes |= {"status": "failed", "stop_reason": "failed", "failure_class": "environment", "reward": None}
        changes |= {"failure_message": "the device crashed"}
    row = trajectory(number, AT, "q-0", **changes)
    rows: list[Row] = [row, *(_step(row.trajectory_id, index, words) for index in range(len(ACTIONS)))]
    if number == 3:
        return rows
    rows.append(judgement(row.trajectory_id, AT, correct=number != 2))
    rows += [_vote(row.trajectory_id, channel, words) for channel in (Channel.TEXT, Channel.MULTIMODAL)]
    return [*rows, _verdict(row.trajectory_id, words)]


def _screen(number: int) -> Screen:
    image = png(number) if number < 3 else b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hit=6'/>"
    width, height = SIZE
    return Screen(screen_id=f"screen-{number}", width=width, height=height, image=image, elements=(), **at_origin(AT))


def _step(trajectory_id: str, index: int, words: str) -> Step:
    action = ACTIONS[index]
    return Step(
        trajectory_id=trajectory_id,
        index=index,
        screen_before=f"screen-{index}",
        screen_after=f"screen-{index + 1}",
        app_before=words,
        app_after="mail",
        thought=words,
        action=action_to_json(action),
        action_kind=action.kind,
        conclusion=words,
        raw_response=words,
        target=TargetElement(role="button", text=words, bounds=Box(2, 30, 14, 42)) if index == 0 else None,
        role_outputs=json.dumps({"planner": words}),
        prompt=words,
        guided=False,
        **at_origin(AT),
    )


def _vote(trajectory_id: str, channel: Channel, reason: str) -> TrajectoryVerdict:
    return TrajectoryVerdict(
        trajectory_id=trajectory_id,
        channel=channel,
        resolution="full",
        vote=0,
        correct=True,
        reason=reason,
        redundant_steps=(),
        first_error_step=None,
        **at_origin(AT),
    )


def _verdict(trajectory_id: str, words: str) -> StepVerdict:
    return StepVerdict(
        trajectory_id=trajectory_id, index=0, analysis=words, summary=words, label=StepLabel.GOOD, **at_origin(AT)
    )


def _hints() -> Guidance:
    return Guidance(
        guidance_id="hint",
        query_id="q-0",
        source_trajectory=name(1),
        source="reference_path",
        step_descriptions=(HOSTILE,),
        dropped_steps=(),
        text=HOSTILE,
        **at_origin(AT),
    )


def _call() -> ModelCall:
    return ModelCall(
        call_id="call",
        trajectory_id=name(0),
        step_index=0,
        role="policy",
        payload_hash="hash",
        messages=json.dumps([{"role": "user", "content": HOSTILE}]),
        response=HOSTILE,
        input_tokens=10,
        output_tokens=5,
        latency_ms=2.0,
        price=0.0,
        error=None,
        **at_origin(AT),
    )


@pytest.fixture(scope="session")
def hostile_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two queries and eight attempts; not to be written to."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("hostile") / "warehouse")
    write_hostile_run(warehouse)
    return warehouse
