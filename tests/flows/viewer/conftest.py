"""A warehouse whose texts try to become a page, and a viewer of it on a free port."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from tests.flows.synthetic_run import step
from tests.records import record
from tests.warehouse.samples import SIZE, at_origin, commit_rows, judgement, png, query, stage_run, trajectory
from trajmill.flows.serving.listening import listening
from trajmill.flows.viewer.app import viewer_app
from trajmill.schemas.actions import Action, Click, Swipe, Terminate
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Row
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, TargetElement
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
_ORIGIN: dict[str, Any] = at_origin(AT)


def write_hostile_run(warehouse: Warehouse) -> None:
    """Commit some attempts at two queries; every text of the first attempt is hostile."""
    first = query("q-0", AT).model_copy(update={"instruction": HOSTILE, "task": HOSTILE, "apps": (HOSTILE, "mail")})
    rows: list[Row] = [first, query("q-1", AT, Split.HELDOUT_APPS)]
    size = dict(zip(("width", "height"), SIZE, strict=True))
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hit=6'/>"
    for number, image in enumerate((png(0), png(1), png(2), svg)):
        rows.append(Screen(screen_id=f"screen-{number}", image=image, elements=(), **size, **_ORIGIN))
    for number in range(COUNT):
        rows += _attempt(number)
    rows.append(trajectory(COUNT, AT, "q-1", purpose=Purpose.EVALUATE, reward=0.0, steps=9, model_version="policy-2"))
    hint = {"guidance_id": "hint", "query_id": "q-0", "source_trajectory": name(1), "source": "reference_path"}
    rows.append(record(Guidance, text=HOSTILE, step_descriptions=(HOSTILE,), **hint, **_ORIGIN))
    call = {"call_id": "call", "trajectory_id": name(0), "step_index": 0, "role": "policy", "response": HOSTILE}
    rows.append(record(ModelCall, messages=json.dumps([{"role": "user", "content": HOSTILE}]), **call, **_ORIGIN))
    commit_rows(warehouse, AT, *rows)
    again = stage_run("judge-again", run_id=RUN)
    second = judgement(name(0), again, correct=False, made_by="second")
    commit_rows(warehouse, again, Judgement(**second.model_dump() | {"judge": "strict", "judge_id": "s"}))


def name(number: int) -> str:
    """The id of a trajectory."""
    return trajectory(number, AT, "q-0").trajectory_id


def _attempt(number: int) -> list[Row]:
    words = HOSTILE if number == 0 else f"attempt {number}"
    changes: dict[str, object] = {"answer": words, "steps": len(ACTIONS), "guidance_id": "hint"}
    if number == 3:
        changes |= {"status": "failed", "stop_reason": "failed", "failure_class": "environment", "reward": None}
        changes |= {"failure_message": "the device crashed"}
    row = trajectory(number, AT, "q-0", **{"reward": float(number % 2)} | changes)
    rows: list[Row] = [row]
    common: dict[str, Any] = {"trajectory_id": row.trajectory_id, **_ORIGIN}
    pressed = TargetElement(role="button", text=words, bounds=Box(2, 30, 14, 42))
    for index, action in enumerate(ACTIONS):
        screens = (f"screen-{index}", f"screen-{index + 1}")
        rows.append(step(index, action, screens, words, target=None if index else pressed, **common))
    if number == 3:
        return rows
    for channel in (Channel.TEXT, Channel.MULTIMODAL):
        rows.append(record(TrajectoryVerdict, channel=channel, correct=True, reason=words, **common))
    rows.append(StepVerdict(index=0, analysis=words, summary=words, label=StepLabel.GOOD, **common))
    return [*rows, judgement(row.trajectory_id, AT, correct=number != 2)]


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


@pytest.fixture(scope="session")
def hostile_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two queries and eight attempts; not to be written to."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("hostile") / "warehouse")
    write_hostile_run(warehouse)
    return warehouse
