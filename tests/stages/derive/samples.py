"""Small episodes to derive from."""

from collections.abc import Sequence
from typing import Any

from tests.records import record
from trajmill.schemas.actions import Action, Click, Terminate, action_to_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepLabel, StepVerdict

PHONE, DESKTOP = Size(720, 1280), Size(1280, 720)
ORIGIN = Origin(round=1, run_id="run", code_version="test")
COMMON = ORIGIN.common("test")
TAP = Click(x=360, y=812)
DONE = Terminate(status="success")


def size_of(screen_id: str) -> Size:
    return DESKTOP if screen_id.startswith("d") else PHONE


def query(name: str = "q", platform: Platform = Platform.PHONE, split: Split = Split.TRAIN) -> Query:
    said = {"task": "bites.order", "raw_instruction": "order", "phrasing": "0", "instruction": f"Order {name}"}
    states = {"start_state": "{}", "goal": "{}", "max_steps": 20, "difficulty": 1, "validation": "passed"}
    named = {"query_id": name, "platform": platform, "apps": ("bites",), "split": split}
    return record(Query, **named | said | states | COMMON)


def step(
    index: int,
    action: Action | None,
    screens: tuple[str, str] | None = None,
    prompt: str | None = None,
    platform: Platform = Platform.PHONE,
) -> Step:
    before, after = screens or (f"s{index}", f"s{index + 1}")
    reply = Reply(f"Thought {index}", action, f"Did {index}") if action is not None else None
    said = "no call" if reply is None else ANY.dialect(platform).render(reply, native_frame(size_of(before)))
    asked = f"The user query: go\nTask progress: {index} steps" if prompt is None else prompt
    places = {"screen_before": before, "screen_after": after, "app_before": "bites", "app_after": "bites"}
    texts = {"thought": f"Thought {index}", "conclusion": f"Did {index}", "raw_response": said, "prompt": asked}
    done = {"action": None if action is None else action_to_json(action), "role_outputs": "{}"}
    kind = "unparsed" if action is None else action.kind
    return record(Step, trajectory_id="t", index=index, action_kind=kind, **places | texts | done | COMMON)


def verdicts(trajectory_id: str, correct: bool, labels: Sequence[StepLabel]) -> dict[str, Any]:
    named = {"trajectory_id": trajectory_id, **COMMON}
    steps = tuple(record(StepVerdict, index=i, label=label, **named) for i, label in enumerate(labels))
    return {"step_verdicts": steps, "judgement": record(Judgement, correct=correct, rule="test", agreed=True, **named)}


def episode(
    steps: Sequence[Step],
    *,
    name: str = "t",
    asked: Query | None = None,
    purpose: Purpose = Purpose.TRAIN,
    status: str = "finished",
    correct: bool | None = True,
    labels: Sequence[StepLabel] = (),
) -> Episode:
    """An episode; `correct` None is one without a judgement, `labels` are those of the first steps."""
    asked = asked or query()
    trajectory_id = content_id("test", name)
    by = {"agent": "end_to_end", "model_version": "m0", "environment": "simulated", "query_id": asked.query_id}
    ended = {"trajectory_id": trajectory_id, "purpose": purpose, "status": status, "steps": len(steps)}
    return Episode(
        query=asked,
        trajectory=record(Trajectory, **by | ended | COMMON),
        steps=tuple(s.model_copy(update={"trajectory_id": trajectory_id}) for s in steps),
        **({} if correct is None else verdicts(trajectory_id, correct, labels)),
    )


def success(length: int, name: str = "t", asked: Query | None = None) -> Episode:
    return episode([*(step(i, TAP) for i in range(length - 1)), step(length - 1, DONE)], name=name, asked=asked)


def failure(length: int, name: str, asked: Query | None = None) -> Episode:
    return episode([step(i, TAP) for i in range(length)], name=name, asked=asked, correct=False)


def walked(made: Episode) -> Episode:
    return made.model_copy(update={"trajectory": made.trajectory.model_copy(update={"model_version": "reference"})})
