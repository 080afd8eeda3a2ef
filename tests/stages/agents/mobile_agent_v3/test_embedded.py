from __future__ import annotations

import asyncio

from tests.stages.models.toy import element, observe
from trajmill.schemas.actions import Click, Wait, action_to_json
from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.agent import WORKER_REPORTS
from trajmill.stages.agents.mobile_agent_v3.embedded import (
    embedded_manager,
    embedded_notetaker,
    embedded_reflector,
)
from trajmill.stages.agents.mobile_agent_v3.manager import TriedAction, open_manager
from trajmill.stages.agents.mobile_agent_v3.notetaker import open_notetaker
from trajmill.stages.agents.mobile_agent_v3.reflector import open_reflector
from trajmill.stages.agents.mobile_agent_v3.task_state import TaskState
from trajmill.stages.agents.roles.role_model import RoleModel

HOME = observe(*(element("icon", name, "clickable") for name in ("Mail", "Maps", "Wallet")), app="")
SAID = 'Use Wallet to redeem the code of the mail "Maps are free".'
MANAGER = open_manager(RoleModel("manager", embedded_manager()), None, None)
OPEN_WALLET, OPEN_MAIL = (f'Open "{app}" and do there what the user asks.' for app in ("Wallet", "Mail"))
REPORT = "Report that the task is done."


def view(screen: Observation = HOME) -> EpisodeView:
    return EpisodeView(SAID, None, screen, (), 1)


def revised(state: TaskState, description: str) -> TaskState:
    reply = asyncio.run(MANAGER.revise(view(), state, TriedAction("{}", description, HOME)))
    return state._replace(plan=reply.plan, completed=reply.completed)


def outcome(before: Observation, after: Observation, action: Click | Wait) -> tuple[str, str]:
    role = open_reflector(RoleModel("reflector", embedded_reflector()), None)
    reply = asyncio.run(role.reflect(view(after), before, Decision("Next.", action, 'Tapped "Go".')))
    return reply.outcome, reply.feedback


def test_the_manager_plans_a_subgoal_for_each_app_that_is_named_outside_quotes() -> None:
    reply = asyncio.run(MANAGER.plan(view(), ""))
    assert reply.plan == (OPEN_WALLET, OPEN_MAIL, REPORT)
    assert asyncio.run(MANAGER.plan(view(observe(element("text", "Wallet"))), "")).plan == (
        f"Do what the user asks: {SAID}",
        REPORT,
    )


def test_the_manager_goes_on_repairs_and_ends() -> None:
    state = TaskState((OPEN_WALLET, OPEN_MAIL, REPORT), outcome="SUCCESS")
    reading = revised(state, 'Tapped "Mail" on "Home screen".')
    assert (reading.completed, reading.plan) == ((), ('Do in "Mail" what the user asks.', OPEN_WALLET, REPORT))
    assert revised(reading, 'Tapped "Gift" on "Mail".') == reading
    later = revised(reading, 'Opened "Wallet".')
    assert later.completed == (reading.plan[0],)
    assert later.plan == ('Do in "Wallet" what the user asks.', REPORT)
    failed = revised(later._replace(outcome="FAILURE"), 'Tapped "Go".')
    assert failed.plan == ('Try again what had no effect: Tapped "Go".', *later.plan)
    assert revised(failed._replace(outcome="SUCCESS"), 'Tapped "Go".').plan == later.plan
    assert revised(later, f"{WORKER_REPORTS} Reported success.").plan == ()


def test_the_reflector_finds_what_had_no_effect_and_what_is_wrong() -> None:
    button = observe(element("button", "Go", "clickable"), element("radio", "Small", "clickable", "selected"))
    press, chosen = Click(x=100, y=120), Click(x=100, y=240)
    assert action_to_json(press).startswith('{"kind":"click","x":100,"y":120')
    assert outcome(button, button, press)[0] == "FAILURE"
    assert outcome(button, button, chosen) == outcome(button, button, Wait()) == ("SUCCESS", "")
    assert outcome(button, HOME, press) == ("SUCCESS", "")
    refused = observe(element("text", "Wrong password"))
    assert outcome(button, refused, press) == ("FAILURE", "The screen shows: Wrong password")


def test_the_notetaker_notes_what_is_marked_as_data_once() -> None:
    role = open_notetaker(RoleModel("notetaker", embedded_notetaker()), None)
    mail = observe(element("heading", "Gift", "title"), element("value", "AMBER12"), element("text", "Bye"))
    first = asyncio.run(role.note(view(), mail, TaskState((REPORT,))))
    assert first.notes == ("Gift: AMBER12",)
    assert asyncio.run(role.note(view(), mail, TaskState((REPORT,), notes=first.notes))).notes == ()
