"""Attempts as documents of ATIF and ADP: valid for their own readers, and read back as the same rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from atif import Trajectory as AtifTrajectory
from hypothesis import example, given
from PIL import Image
from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from tests.records import record
from tests.schemas.dialects.actions import actions_on
from tests.stages.derive.samples import ORIGIN, PHONE, episode, step
from tests.stages.export.formats.folders import PHONE_ACTIONS, SOURCE, walked
from tests.stages.export.stored import StoredScreens, png
from trajmill.schemas.actions import Action, HorizontalScroll, Scroll, SwitchDevice
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.export.formats.atif_document import (
    COMPUTER_ACTION,
    read_computer_action,
    read_task_complete,
    tool_use,
)
from trajmill.stages.export.formats.exchange import EXCHANGES, ExchangeFormat, context_steps, write_exchange


def spoken(action: Action) -> Action | None:
    """An action as it is read from its call, after a way through JSON."""
    name, arguments = tool_use(action)
    read = read_computer_action if name == COMPUTER_ACTION else read_task_complete
    return read(json.loads(json.dumps(arguments)))


@given(actions_on(PHONE))
@example(SwitchDevice(device="phone"))
def test_every_action_has_a_call_of_its_own(action: Action) -> None:
    # An empty answer is none, and more than a thousand clicks of a wheel are too many.
    if action.kind == "answer" and not action.text:
        return
    if isinstance(action, Scroll | HorizontalScroll) and abs(action.clicks) > 1000:
        assert spoken(action) == action.model_copy(update={"clicks": 1000 if action.clicks > 0 else -1000})
        return
    assert spoken(action) == action


def attempts() -> list[Episode]:
    """A phone and a desktop success, and a failure with a HARMFUL, an unparsed and an unprompted step, with tokens."""
    phone, desktop = walked()
    tokens = {"reply_token_ids": (5, 7), "reply_logprobs": (-0.25, -1.5), "policy_version": "m0"}
    roles = {"role_outputs": json.dumps({"planner": "a plan"})}
    wrong = [
        step(0, PHONE_ACTIONS[0]).model_copy(update=tokens | roles),
        step(1, None),
        step(2, PHONE_ACTIONS[2], prompt=""),
    ]
    failed = episode(wrong, name="f", correct=False, labels=[StepLabel.HARMFUL, StepLabel.UNKNOWN])
    asked = {"trajectory_id": failed.trajectory.trajectory_id, "input_tokens": 900, "output_tokens": 20, "price": 0.5}
    calls = tuple(record(ModelCall, step_index=0, role="policy", **asked, **ORIGIN.common("m0")) for _ in range(2))
    rewarded = failed.trajectory.model_copy(update={"reward": 0.5, "answer": None})
    return [phone, desktop, failed.model_copy(update={"calls": calls, "trajectory": rewarded})]


@pytest.fixture
def exported(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The attempts in the format that the test is about; no picture is decoded."""

    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("a picture that is copied is decoded")

    made, screens = attempts(), StoredScreens()
    for one in made:
        for each in one.steps:
            png(each.screen_before), png(each.screen_after)
    form = EXCHANGES.default_spec(request.param, ExchangeFormat)
    with monkeypatch.context() as patched:
        patched.setattr(Image, "open", refuse)
        assert write_exchange(tmp_path, form, SOURCE, iter(made), screens) == 3
    assert json.loads((tmp_path / "export.json").read_text())["attempts"] == 3
    return tmp_path


def test_the_prefix_of_a_branch_is_context() -> None:
    phone, _ = walked()
    branch = phone.model_copy(update={"trajectory": phone.trajectory.model_copy(update={"branched_at": 2})})
    assert context_steps(phone) == frozenset() and context_steps(branch) == {0, 1}


def as_atif(folder: Path, one: Episode) -> AtifTrajectory:
    return AtifTrajectory.model_validate_json(
        (folder / one.trajectory.trajectory_id / "agent/trajectory.json").read_text()
    )


@pytest.mark.parametrize("exported", ["atif"], indirect=True)
def test_the_package_atif_reads_every_document(exported: Path) -> None:
    for one in attempts():
        document = as_atif(exported, one)
        asked, *turns = document.steps
        assert isinstance(asked.message, list) and asked.message[0].text == one.query.instruction
        shown: list[Any] = [asked.message[1], *(turn.observation.results[0].content[0] for turn in turns)]  # type: ignore
        for part, screen in zip(shown, names_of(one), strict=True):
            path = exported / one.trajectory.trajectory_id / "agent" / part.source.path
            assert path.read_bytes() == png(screen)
        assert [turn.reasoning_content for turn in turns] == [each.thought for each in one.steps]
        assert [turn.message for turn in turns] == [each.conclusion for each in one.steps]
        assert document.agent.tool_definitions and document.extra and document.extra["trajmill"]["platform"]
        tools = {each["function"]["name"]: each["function"]["parameters"] for each in document.agent.tool_definitions}
        for call in (call for turn in turns for call in turn.tool_calls or ()):
            assert call.arguments.keys() <= tools[call.function_name]["properties"].keys()
    failed = attempts()[2]
    first, unparsed, unprompted = as_atif(exported, failed).steps[1:]
    assert first.metrics and first.metrics.completion_token_ids == [5, 7] and first.metrics.logprobs == [-0.25, -1.5]
    assert (first.llm_call_count, first.metrics.prompt_tokens, first.metrics.completion_tokens) == (2, 1800, 40)
    assert (first.is_copied_context, unparsed.tool_calls, unprompted.is_copied_context) == (None, None, True)
    assert unparsed.extra and unparsed.extra["trajmill"]["raw_response"] == failed.steps[1].raw_response
    assert first.extra and first.extra["trajmill"]["label"] == "HARMFUL" and "label" not in unparsed.extra["trajmill"]
    reward = exported / failed.trajectory.trajectory_id / "verifier/reward.json"
    assert json.loads(reward.read_text()) == {"reward": 0.5}


def names_of(one: Episode) -> Iterator[str]:
    yield one.steps[0].screen_before
    yield from (each.screen_after for each in one.steps)


class Strict(BaseModel):
    """The standardized schema 1.2.0 of the Agent Data Protocol, written from its published models."""

    model_config = ConfigDict(extra="forbid")


class Box(Strict):
    x: float
    y: float
    width: float
    height: float


class Annotation(Strict):
    element_type: str
    bounding_box: Box
    text: str | None
    content_description: str | None = None
    clickable: bool | None = None
    editable: bool | None = None


class Picture(Strict):
    class_: Literal["image_observation"]
    content: str
    source: Literal["user", "agent", "environment"]
    annotations: list[Annotation] | None = None
    tool_call_id: str | None = None
    reward: float | None = None


class Text(Strict):
    class_: Literal["text_observation"]
    content: str
    source: Literal["user", "agent", "environment"]
    name: str | None = None
    tool_call_id: str | None = None


class Call(Strict):
    class_: Literal["api_action"]
    function: str
    kwargs: dict[str, Any]
    tool_call_id: str | None = None
    description: str | None = None
    reasoning_content: str | None = None
    reward: float | None = None


class Message(Strict):
    class_: Literal["message_action"]
    content: str
    description: str | None = None
    reasoning_content: str | None = None
    reward: float | None = None


class Adp(Strict):
    schema_version: Literal["1.2.0"]
    id: str
    content: list[Call | Message | Text | Picture]
    available_custom_tools: list[str]
    details: dict[str, Any]

    @model_validator(mode="after")
    def linked(self) -> Self:
        calls = [item.tool_call_id for item in self.content if isinstance(item, Call)]
        results = [item.tool_call_id for item in self.content if isinstance(item, Picture) and item.tool_call_id]
        assert calls == results and len(set(calls)) == len(calls), "each call has one result"
        assert {item.function for item in self.content if isinstance(item, Call)} <= {*self.available_custom_tools}
        return self


@pytest.mark.parametrize("exported", ["adp"], indirect=True)
def test_every_line_follows_the_schema_of_the_agent_data_protocol(exported: Path) -> None:
    lines = (exported / "data/trajectories.jsonl").read_text().splitlines()
    read = [TypeAdapter(Adp).validate_json(line) for line in lines]
    assert [each.id for each in read] == [one.trajectory.trajectory_id for one in attempts()]
    for each, one in zip(read, attempts(), strict=True):
        pictures = [item for item in each.content if isinstance(item, Picture)]
        assert [(exported / item.content).read_bytes() for item in pictures] == [png(name) for name in names_of(one)]
        assert all(item.annotations for item in pictures)
    failed = read[2]
    assert failed.details["context_steps"] == [2] and failed.content[-2].reward == 0.5  # type: ignore
    kinds = [type(item).__name__ for item in failed.content[2:]]
    assert kinds == ["Call", "Picture", "Message", "Picture", "Call", "Picture"]
