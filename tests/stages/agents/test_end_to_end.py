from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from tests.stages.models.toy import ToyPhone
from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.families import FAMILIES
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.end_to_end import NO_ACTION, EndToEndAgent
from trajmill.stages.models.base import ChatRequest, Completion

CLICK = '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 500]}}</tool_call>'


@dataclass
class Scripted:
    """Says one thing and remembers what it was asked."""

    text: str
    version: str = "scripted-1"
    asked: list[ChatRequest] = field(default_factory=list)
    space: CoordinateSpace = CoordinateSpace.RESIZED_PIXELS

    def frame(self, screen: Size) -> CoordinateFrame:
        return CoordinateFrame(self.space, screen, screen)

    async def close(self) -> None:
        pass

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return Completion(self.text, 10, 5, "stop")


def view(guidance: str | None = None, *history: Decision) -> EpisodeView:
    return EpisodeView("order Pad Thai", guidance, ToyPhone(0).look(), history, 7)


def act(agent: EndToEndAgent, episode: EpisodeView) -> Decision:
    return asyncio.run(agent.act(episode))


def test_the_request_holds_instruction_history_guidance_and_screen() -> None:
    model = Scripted(f"Thought: here.\n{CLICK}\nConclusion: Tapped.")
    past = Decision("", None, "Opened Toy.")
    decision = act(EndToEndAgent(model, Platform.PHONE), view("1. Tap it.", past))
    system, user = model.asked[0].messages
    assert "mobile_use" in str(system.parts[0]) and "Guidance:\n1. Tap it." in str(user.parts[0])
    assert "Step 1: Opened Toy." in str(user.parts[0])
    assert isinstance(user.parts[1], Observation) and user.parts[1].app == "Toy"
    assert "Guidance" not in decision.prompt and "Step 1: Opened Toy." in decision.prompt
    assert (decision.thought, decision.conclusion, decision.action) == ("here.", "Tapped.", Click(x=500, y=500))
    assert decision.calls[0].completion is not None and decision.calls[0].request is model.asked[0]


def test_positions_are_read_in_the_models_space() -> None:
    agent = EndToEndAgent(Scripted(CLICK, space=CoordinateSpace.PER_MILLE), Platform.PHONE)
    assert act(agent, view()).action == Click(x=360, y=640)


def test_text_around_the_action_is_kept() -> None:
    decision = act(EndToEndAgent(Scripted("I would rather not \ud800"), Platform.PHONE), view())
    assert decision.action is None and decision.conclusion == NO_ACTION
    assert decision.raw_response == "I would rather not ?"


def test_each_step_of_an_episode_has_its_own_seed() -> None:
    model = Scripted(CLICK)
    agent = EndToEndAgent(model, Platform.PHONE)
    for history in ((), (), (Decision("", None, ""),)):
        act(agent, view(None, *history))
    first, again, later = (request.seed for request in model.asked)
    assert first == again != later


def test_a_served_family_is_asked_and_read_in_its_own_dialect() -> None:
    said = (
        'Action: Tap it.\n<tool_call>\n{"name": "mobile_use", "arguments": '
        '{"action": "click", "coordinate": [500, 500]}}\n</tool_call>'
    )
    model = Scripted(said, space=CoordinateSpace.PER_MILLE)
    agent = EndToEndAgent(model, Platform.PHONE, family=FAMILIES["gui-owl-1.5"])
    first = act(agent, view())
    assert (first.action, first.conclusion) == (Click(x=360, y=640), "Tap it.")
    later = replace(view(None, first), past_observations=(view().observation,))
    second = act(agent, later)
    system, shown, reply, now = model.asked[1].messages
    assert "1000x1000" in str(system.parts[0]) and "Response format" in str(system.parts[0])
    assert shown.parts == (second.prompt, later.past_observations[0]) and second.prompt.endswith("actions:\nNone")
    assert (reply.role, reply.parts) == ("assistant", (said,)) and now.parts == (later.observation,)


def test_a_reply_in_another_dialect_is_no_action() -> None:
    model = Scripted(f"Thought: here.\n{CLICK}\nConclusion: Tapped.")
    decision = act(EndToEndAgent(model, Platform.PHONE, family=FAMILIES["gui-owl-1.5"]), view())
    assert decision.action is None and decision.conclusion == NO_ACTION
