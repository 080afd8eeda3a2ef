import json
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from tests.stages.agents import errand
from tests.stages.agents.errand import errand_world, redeem_query, rendered, shown, user_text
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Action, Answer, Click, Swipe, Terminate, TypeText
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop
from trajmill.schemas.dialects.user_text import read
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.agents.light_manus.agent import LightManusSpec
from trajmill.stages.agents.mobile_agent_v3.agent import WORKER_REPORTS
from trajmill.stages.agents.replies import read_sections
from trajmill.stages.environments.devices.environment import DevicesTogether
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.rollout.base import FinishedAttempt

ON_PHONE = ("Mail", "down", "Thank you gift", "answer")
ON_DESKTOP = ("Writer", "Work plan", "Insert", "Headline", "Headline", "type", "Insert", "done")
TASKS = """### Atomic Tasks ###
1. [phone] Answer with the code in the mail "Thank you gift" -> code
2. [desktop] Write {code} as the headline of "Work plan" in Writer
"""


def query() -> Query:
    """The code of a mail on the phone becomes a headline on the desktop."""
    mail = redeem_query()
    goal = {"writer.headlines": {"append": {"name": "DELTA33", "document": "Work plan"}}}
    changes = {
        "instruction": "Put the code from the mail as headline into the letter on the desktop.",
        "start_state": json.dumps({"devices": {"phone": json.loads(mail.start_state)}}),
        "goal": json.dumps({"devices": {"phone": {}, "desktop": goal}}),
    }
    return mail.model_copy(update=changes)


def reply(word: str, screen: Observation, instruction: str) -> Reply:
    elements = screen.elements or ()
    shown_code = next((e.text for e in elements if e.text == "DELTA33"), "")
    told_code = next((word for word in instruction.split() if word.startswith("DELTA")), "")
    known: dict[str, Action] = {"down": Swipe(x=360, y=1000, x2=360, y2=300), "done": Terminate(status="success")}
    known |= {"answer": Answer(text=shown_code)} if shown_code else {}
    known |= {"type": TypeText(text=told_code)} if told_code else {}
    # A dialog comes after the page under it.
    hit = next((e for e in reversed(elements) if e.text == word and e.clickable), None)
    if hit is not None:
        double = screen.app == "" and screen.screen.size.width > screen.screen.size.height
        known[word] = Click(x=hit.bounds.center.x, y=hit.bounds.center.y, count=2 if double else 1)
    return Reply(f"I look for {word}.", known.get(word, Terminate(status="failure")), f"Did {word}.")


def executor(phone: tuple[str, ...] = ON_PHONE, version: str = "executor-1") -> ScriptedModel:
    """Walks the words of the device; it knows nothing but the instruction of its atomic task."""

    def answer(request: ChatRequest) -> str:
        (screen,) = shown(request)
        told = read(user_text(request))
        on_phone = "mobile_use" in str(request.messages[0].parts[0])
        words = phone if on_phone else ON_DESKTOP
        said = reply(words[len(told.conclusions)], screen, told.instruction)
        return rendered(said, screen) if on_phone else GuiOwlDesktop().render(said, native_frame(screen.screen.size))

    return ScriptedModel(answer, version)


def devices() -> DevicesTogether:
    apps = {Platform.PHONE: errand_world(), Platform.DESKTOP: shared_world((), ("writer",))}
    made = {each: SimulatedEnvironment(world, each, FaultRates(popup=0, slow=0)) for each, world in apps.items()}
    return DevicesTogether(made, Platform.PHONE)


def run(spec: LightManusSpec, worker: ScriptedModel, **others: ScriptedModel) -> FinishedAttempt:
    models = {"worker": worker, "parser": ScriptedModel(lambda _: TASKS, "parser-1"), **others}
    return errand.run(spec, models, devices(), query())


NAMED = LightManusSpec(parser="p")


def kinds(finished: FinishedAttempt) -> Iterator[str]:
    return (step.action_kind for step in finished.episode.steps)


def test_an_answer_from_the_phone_is_used_on_the_desktop() -> None:
    finished = run(NAMED, executor())
    assert finished.episode.trajectory.reward == 1.0
    assert list(kinds(finished)).index("switch_device") == len(ON_PHONE) - 1
    last = json.loads(finished.episode.steps[-1].role_outputs)
    assert last["answers"] == "code = DELTA33" and last["device"] == "desktop"
    assert last["instruction"] == 'Write DELTA33 as the headline of "Work plan" in Writer'
    roles = [(call.step_index, call.role) for call in finished.episode.calls]
    assert roles[:2] == [(0, "parser"), (0, "executor")]
    without = run(NAMED.model_copy(update={"parser": "off"}), executor())
    assert without.episode.trajectory.reward == 0.0 and "switch_device" not in list(kinds(without))


@pytest.mark.parametrize("words", [("Mail", "Nothing of that name"), ("Mail", "done")], ids=["failed", "no answer"])
def test_the_pathway_collapses_at_the_first_failure_or_answer_that_is_owed(words: tuple[str, ...]) -> None:
    finished = run(NAMED, executor(words))
    assert (finished.episode.trajectory.reward, finished.episode.trajectory.answer) == (0.0, "failure")
    assert list(kinds(finished)) == ["click", "terminate"]
    assert finished.episode.steps[-1].conclusion.startswith("The pathway collapses: [phone]")


def test_the_embedded_parser_divides_at_the_devices_that_are_named() -> None:
    across = query().model_copy(update={"instruction": "On the phone, open Mail. Then on the desktop open Writer."})
    finished = errand.run(LightManusSpec(), {"worker": executor()}, devices(), across)
    tasks = json.loads(finished.episode.steps[0].role_outputs)["atomic_tasks"].splitlines()
    assert tasks == ["[phone] open Mail.", "[desktop] open Writer."]


def test_each_device_can_have_a_model_of_its_own() -> None:
    phone, desktop, policy = executor(), executor(version="desktop-1"), executor()
    spec = NAMED.model_copy(update={"phone": "a", "desktop": "b"})
    finished = run(spec, policy, phone=phone, desktop=desktop)
    assert finished.episode.trajectory.reward == 1.0
    assert [len(model.asked) for model in (phone, desktop, policy)] == [len(ON_PHONE), len(ON_DESKTOP), 0]


def managed(request: ChatRequest) -> str:
    """Plans each atomic task in one subgoal, and empties the plan when the Worker reports success."""
    asked = read_sections(user_text(request))
    done = asked.get("last action description", "").startswith(WORKER_REPORTS)
    return f"### Plan ###\n{'Finished' if done else '1. ' + asked['user request']}"


def test_each_device_can_have_a_manager_and_a_reflector_around_its_operator() -> None:
    manager, reflector = ScriptedModel(managed), ScriptedModel(lambda _: "### Outcome ###\nSUCCESS")
    spec = NAMED.model_copy(update={"manager": "m", "reflector": "r"})
    worker = executor()
    finished = run(spec, worker, manager=manager, reflector=reflector)
    assert finished.episode.trajectory.reward == 1.0
    tasks = [read_sections(user_text(request))["user request"] for request in manager.asked]
    written = 'Write DELTA33 as the headline of "Work plan" in Writer'
    assert list(dict.fromkeys(tasks)) == ['Answer with the code in the mail "Thank you gift"', written]
    assert "Thank you gift" not in user_text(worker.asked[-1]) and "### Overall Plan ###" in user_text(worker.asked[-1])
    outputs = [json.loads(step.role_outputs) for step in finished.episode.steps]
    assert outputs[0]["plan"] == tasks[0] and outputs[-2]["plan"] == written and outputs[-2]["device"] == "desktop"
    # The first action of a task has no outcome; a new device begins with a new plan.
    assert len(reflector.asked) == len(ON_PHONE) + len(ON_DESKTOP) - 2
    failing = ScriptedModel(lambda _: "### Outcome ###\nFAILURE\n### Feedback ###\nNothing happened.")
    told = executor()
    run(spec, told, manager=manager, reflector=failing)
    assert "FAILURE: Nothing happened." in user_text(told.asked[1])


@pytest.mark.parametrize("name", ["embedded", "off"])
def test_a_device_without_a_model_gives_one_error_line(name: str) -> None:
    with pytest.raises(ValidationError, match=r"name 'policy' or an \[endpoints.NAME\]"):
        LightManusSpec(desktop=name)
