import asyncio

from tests.stages.agents.errand import redeem_query
from tests.stages.models.toy import element, observe
from trajmill.schemas.actions import Action, Click, Terminate, Wait, action_to_json
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import AgentModel, Decision, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.agent import (
    WORKER_REPORTS,
    ManagerRoles,
    MobileAgentV3,
    MobileAgentV3Spec,
    TaskState,
    read_state,
)
from trajmill.stages.agents.replies import read_first_plan
from trajmill.stages.agents.roles import EmbeddedRole

HOME = observe(*(element("icon", name, "clickable") for name in ("Mail", "Maps", "Wallet")), app="")
WALLET = observe(element("text", "Wallet"))
SAID = 'Use Wallet to redeem the code of the mail "Maps are free".'
OPEN = 'Open "{}" and do the part of the task that belongs there.'
GO_ON = 'Carry on in "{}" with the part of the task that belongs there.'
OPEN_WALLET, OPEN_MAIL, ON_WALLET, ON_MAIL = (said.format(app) for said in (OPEN, GO_ON) for app in ("Wallet", "Mail"))
REPORT = "Report that the task is done."
PRESS = Click(x=700, y=700)


def agent() -> MobileAgentV3:
    made = MobileAgentV3Spec().open(AgentModel(EmbeddedRole("unused", lambda _: ""), ANY, 0.0))(redeem_query())
    assert isinstance(made, MobileAgentV3)
    return made


def planned(screen: Observation) -> tuple[str, ...]:
    manager, episode = agent().manager, EpisodeView(SAID, None, screen, (), 1)
    assert isinstance(manager, ManagerRoles)
    asked = manager.first.ask(episode, read_first_plan, (screen,), instruction=SAID, knowledge="none")
    plan = asyncio.run(asked).said
    assert plan is not None
    return plan.pending


def acted(state: TaskState, conclusion: str, action: Action, before: Observation, after: Observation) -> Decision:
    last = Decision("Next.", action, conclusion, role_outputs=state.outputs())
    return asyncio.run(agent().act(EpisodeView(SAID, None, after, (last,), 1, (before,))))


def revised(state: TaskState, conclusion: str, after: Observation = WALLET, before: Observation = HOME) -> TaskState:
    return read_state(acted(state, conclusion, PRESS, before, after).role_outputs)


def outcome(before: Observation, after: Observation, action: Click | Wait) -> tuple[str, str]:
    outputs = acted(TaskState((REPORT,)), 'Tapped "Go".', action, before, after).role_outputs
    return outputs["outcome"], outputs.get("feedback", "")


def test_the_manager_plans_a_subgoal_for_each_app_outside_quotes_goes_on_repairs_and_ends() -> None:
    assert planned(HOME) == (OPEN_WALLET, OPEN_MAIL, REPORT)
    assert planned(WALLET) == (f"Do what the user asks: {SAID}", REPORT)
    state = TaskState((OPEN_WALLET, OPEN_MAIL, REPORT))
    reading = revised(state, 'Tapped "Mail" on "Home screen".')
    assert (reading.completed, reading.plan) == ((), (ON_MAIL, OPEN_WALLET, REPORT))
    assert revised(reading, 'Tapped "Gift" on "Mail".') == reading
    later = revised(reading, 'Opened "Wallet".')
    assert later.completed == (ON_MAIL,)
    assert later.plan == (ON_WALLET, REPORT)
    failed = revised(later, 'Tapped "Go".', after=HOME)
    assert failed.plan == ('Try again what had no effect: Tapped "Go".', *later.plan)
    assert revised(failed, 'Tapped "Go".').plan == later.plan
    ended = acted(later, f"{WORKER_REPORTS} Reported success.", PRESS, HOME, WALLET)
    assert ended.action == Terminate(status="success") and "plan" not in ended.role_outputs


def test_the_reflector_finds_what_is_wrong_and_the_notetaker_notes_what_is_marked_as_data_once() -> None:
    button = observe(element("button", "Go", "clickable"), element("radio", "Small", "clickable", "selected"))
    press, chosen = Click(x=100, y=120), Click(x=100, y=240)
    assert action_to_json(press).startswith('{"kind":"click","x":100,"y":120')
    assert outcome(button, button, press)[0] == "FAILURE"
    assert outcome(button, button, chosen) == outcome(button, button, Wait()) == ("SUCCESS", "")
    assert outcome(button, HOME, press) == ("SUCCESS", "")
    refused = observe(element("text", "Wrong password"))
    assert outcome(button, refused, press) == ("FAILURE", "The screen shows: Wrong password")
    mail = observe(element("heading", "Gift", "title"), element("value", "AMBER12"), element("text", "Bye"))
    noted = revised(TaskState((REPORT,)), 'Tapped "Go".', before=mail)
    assert noted.notes == ("Gift: AMBER12",)
    assert revised(noted, 'Tapped "Go".', before=mail).notes == ("Gift: AMBER12",)
