"""The embedded Manager, Reflector and Notetaker: simple rules on screens and accessibility trees.

They read what a model in their place would be shown: the sections of the prompt, and the screens with their trees. They
never see the simulator's state, the query's path or its goal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trajmill.schemas.observation import Observation
from trajmill.stages.agents.mobile_agent_v3.agent import WORKER_REPORTS
from trajmill.stages.agents.replies import FAILURE, NONE, SUCCESS, numbered, read_items
from trajmill.stages.agents.roles import EmbeddedQuestion, EmbeddedRole

TRY_AGAIN = "Try again what had no effect: "
_OPEN = 'Open "{}" and do the part of the task that belongs there.'
_BEGUN = "Carry on in "
_GO_ON = _BEGUN + '"{}" with the part of the task that belongs there.'
_REPORT = "Report that the task is done."
_QUOTED = re.compile(r'"[^"]*"')
_MOST_NOTES = 5
_NO_EFFECT = "The screen is the same as before. The action was lost, or it does nothing at this place."
_ERROR = re.compile(r"\b(error|failed|invalid|wrong|not found|cannot)\b", re.IGNORECASE)
_SETTLED = frozenset({"selected", "checked", "focused"})


def _managed(asked: EmbeddedQuestion) -> str:
    """Plan one subgoal for each app that the request names; one is done when the next app is opened."""
    request = asked.section("user request")
    if not asked.section("plan"):
        apps = _named_apps(request, asked.screens)
        said = f"The request names {', '.join(apps)}." if apps else "The request names no app on this screen."
        subgoals = [_OPEN.format(app) for app in apps] or [f"Do what the user asks: {request}"]
        return f"### Thought ###\n{said}\n### Plan ###\n{numbered((*subgoals, _REPORT))}"
    plan, completed = read_items(asked.section("plan")), read_items(asked.section("completed subgoals"))
    done = asked.section("last action description")
    if done.startswith(WORKER_REPORTS):
        return _plan("The Worker reports success.", (*completed, *plan), ())
    first = tuple(subgoal for subgoal in plan if not subgoal.startswith(TRY_AGAIN))
    if asked.section("outcome") == FAILURE:
        return _plan("The last action failed.", completed, (f"{TRY_AGAIN}{done}", *first))
    named = re.match(r'(?:Opened|Tapped) "([^"]*)"', done)
    opened = _OPEN.format(named[1]) if named else ""
    if named is None or opened not in first:
        return _plan("The plan goes on.", completed, first)
    # What was begun in another app is done when the next app is opened.
    begun = tuple(subgoal for subgoal in first if subgoal.startswith(_BEGUN))
    later = tuple(subgoal for subgoal in first if subgoal not in (*begun, opened))
    now = _GO_ON.format(named[1])
    return _plan(f"Next: {now}", (*completed, *begun), (now, *later))


def _named_apps(request: str, screens: Iterable[Observation]) -> list[str]:
    """The icons on the screen that the request names outside quotes, in the order in which it names them."""
    said = _QUOTED.sub(" ", request).casefold()
    places = {
        element.text: place.start()
        for screen in screens
        for element in screen.elements or ()
        if element.role == "icon"
        and (place := re.search(rf"(?<!\w){re.escape(element.text.casefold())}(?!\w)", said)) is not None
    }
    return sorted(places, key=lambda app: places[app])


def _plan(thought: str, completed: tuple[str, ...], plan: tuple[str, ...]) -> str:
    left = numbered(plan) if plan else "Finished"
    return f"### Thought ###\n{thought}\n### Completed Subgoals ###\n{numbered(completed)}\n### Plan ###\n{left}"


def _reflected(asked: EmbeddedQuestion) -> str:
    """Find failures by the screen: nothing changed though something should have, or an error is shown."""
    before, after = asked.screens
    known = {element.text for element in before.elements or ()}
    fresh = next((e.text for e in after.elements or () if e.text not in known and _ERROR.search(e.text)), "")
    outcome, feedback = (FAILURE, f"The screen shows: {fresh}") if fresh else (SUCCESS, NONE)
    if before.screen.screen_id == after.screen.screen_id and not _may_change_nothing(asked, before):
        outcome, feedback = FAILURE, _NO_EFFECT
    return f"### Outcome ###\n{outcome}\n### Feedback ###\n{feedback}"


def _may_change_nothing(asked: EmbeddedQuestion, before: Observation) -> bool:
    """Whether an action may leave the screen as it is: waiting, or choosing what is chosen already."""
    action = asked.section("last action")
    if '"kind":"wait"' in action:
        return True
    point = re.search(r'"kind":"click","x":(\d+),"y":(\d+)', action)
    if point is None:
        return False
    pressed = [e for e in before.elements or () if e.bounds.contains(int(point[1]), int(point[2]))]
    return any(_SETTLED & set(element.states) for element in pressed)


def _noted(asked: EmbeddedQuestion) -> str:
    """Note the elements that the tree marks as data: codes, addresses, totals."""
    known, notes = read_items(asked.section("important notes")), list[str]()
    for screen in asked.screens:
        title = next((e.text for e in screen.elements or () if "title" in e.states), screen.app)
        notes += [f"{title}: {e.text}" for e in screen.elements or () if e.role == "value" and e.text]
    return f"### Important Notes ###\n{numbered([note for note in notes if note not in known][:_MOST_NOTES])}"


MANAGER = EmbeddedRole("embedded-manager-3", _managed)
REFLECTOR = EmbeddedRole("embedded-reflector-2", _reflected)
NOTETAKER = EmbeddedRole("embedded-notetaker-1", _noted)
