"""Wishes that cannot be fulfilled: goals of tasks on devices whose list lacks the wanted item.

They are worded as any other goal; only the screen tells. The rightful end is a report of failure after a look at the
whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.environments.screen_goal import INFEASIBLE, PATHWAY
from trajmill.stages.environments.simulated.app_files.app_spec import ItemList
from trajmill.stages.environments.simulated.app_files.references import place_of
from trajmill.stages.environments.simulated.reference_path import (
    GIVE_UP,
    path_to,
    start_state_json,
    unchanged_json,
)
from trajmill.stages.environments.simulated.world import TaskSlot
from trajmill.stages.queries.base import QueryPlan

if TYPE_CHECKING:
    from trajmill.stages.queries.tasks.source import TaskGoal


def absent_goals(tasks: Iterable[Sequence[TaskGoal]]) -> list[list[TaskGoal]]:
    """Return for each task its goals without the item that one of their slots asks for, where no other page has it."""
    found = []
    for goals in tasks:
        lacking = ((goal, [slot for slot in goal.graph.slots if _can_lack(goal, slot)]) for goal in goals)
        found.append([g._replace(absent=s[int(content_id(g.key), 16) % len(s)]) for g, s in lacking if s])
    return [goals for goals in found if goals]


def given_up(plan: QueryPlan, goal: TaskGoal, slot: TaskSlot) -> QueryPlan:
    """Return the plan of a goal on a device that lacks the item of a slot: a look at its whole list, then failure."""
    assert isinstance(slot.widget, ItemList)
    page, lacking = slot.page, f"{place_of(slot.page).app}.{slot.widget.items}"
    end = PathStep(page=page, operation=GIVE_UP, target=f"{page}/scroll")
    seen = {"showing": [{"id": f"{page}/title"}], "lacking": [{"target": end.target, "state": "scrollable_down"}]}
    return plan._replace(
        path=tuple(path_to(goal.graph, goal.path, goal.asked, end)),
        start_state=start_state_json(goal.graph, goal.asked, {lacking: goal.asked[slot.spec.name]}),
        goal=unchanged_json(goal.graph, **{PATHWAY: [seen], INFEASIBLE: True}),
    )


def _can_lack(goal: TaskGoal, slot: TaskSlot) -> bool:
    spec, widget, graph = slot.spec, slot.widget, goal.graph
    if len(graph.apps) > 1 or not isinstance(widget, ItemList) or not slot.is_free or spec.optional:
        return False
    if slot.page not in goal.path or widget.search or any("$" in str(value) for value in widget.where.values()):
        return False
    app, listed, before = graph.apps[0], goal.asked[spec.name], goal.path[: goal.path.index(slot.page)]
    for other in (each for each in graph.slots if each.page in before):
        # Nothing may be changed before the list is seen, and each pick on the way to it is one that the user names.
        if not other.is_free or (other.spec.name in goal.asked and other.widget.sets in app.state):
            return False
    lists = [
        each
        for page in graph.graph
        for each in app.screens[place_of(page).name].widgets
        if isinstance(each, ItemList) and each.items == widget.items and each.variable
    ]
    return len(lists) == 1 and any(item.get("name") == listed for item in app.all_lists()[widget.items])
