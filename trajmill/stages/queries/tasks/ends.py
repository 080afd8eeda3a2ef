"""Queries that end otherwise than with a report of success; they are walked like all others.

Wishes that cannot be fulfilled: goals of tasks on devices whose list lacks the wanted item, worded as any other goal.
The rightful end is a report of failure after a look at the whole list.

Questions: goals of tasks cut short at a page that shows a labelled value of the item that the task is about. The
rightful end is an answer with the value. GUI-Owl's desktop actions have none, so that only phones are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import ASKED, PathStep, Platform, Slot, Split
from trajmill.stages.environments import screen_goal
from trajmill.stages.environments.simulated import reference_path as walked
from trajmill.stages.environments.simulated.app_files.app_spec import ItemList
from trajmill.stages.environments.simulated.app_files.references import bind_text, place_of, shown
from trajmill.stages.environments.simulated.world import TaskSlot
from trajmill.stages.queries.base import QueryPlan, Written, phrased
from trajmill.stages.queries.leaks import HELDOUT_GOALS

if TYPE_CHECKING:
    from trajmill.stages.queries.tasks.source import TaskGoal

_PARTS = 8
"""Each held-out split of known apps gets one in so many questions."""


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
    end = PathStep(page=page, operation=walked.GIVE_UP, target=f"{page}/scroll")
    seen = {"showing": [{"id": f"{page}/title"}], "lacking": [{"target": end.target, "state": "scrollable_down"}]}
    return plan._replace(
        path=tuple(walked.path_to(goal.graph, goal.path, goal.asked, end)),
        start_state=walked.start_state_json(goal.graph, goal.asked, {lacking: goal.asked[slot.spec.name]}),
        goal=walked.unchanged_json(goal.graph, **{screen_goal.PATHWAY: [seen], screen_goal.INFEASIBLE: True}),
    )


def _can_lack(goal: TaskGoal, slot: TaskSlot) -> bool:
    spec, widget, graph = slot.spec, slot.widget, goal.graph
    if len(graph.apps) > 1 or not isinstance(widget, ItemList) or not slot.is_free or spec.optional:
        return False
    # An agent would look elsewhere in the app before it gives up on the first page.
    if slot.page not in goal.path[1:] or widget.search or any("$" in str(value) for value in widget.where.values()):
        return False
    app, listed, before = graph.apps[0], goal.asked[spec.name], goal.path[: goal.path.index(slot.page)]
    for other in (each for each in graph.slots if each.page in before):
        # On the way to the list nothing may be changed, and the user names each choice.
        if not other.is_free or (other.spec.name in goal.asked and other.widget.sets in app.state):
            return False
    lists = [
        each
        for page in graph.graph
        for each in app.screens[place_of(page).name].widgets
        if isinstance(each, ItemList) and each.items == widget.items and each.variable
    ]
    return len(lists) == 1 and any(item.get("name") == listed for item in app.all_lists()[widget.items])


class Question(NamedTuple):
    item: TaskSlot
    """The slot that picks the item, on a page before."""
    label: str
    end: PathStep

    @property
    def task(self) -> str:
        return f"{place_of(self.end.page).app}.ask"

    @property
    def split(self) -> Split:
        draw = int(content_id(self.end.target), 16) % _PARTS
        return HELDOUT_GOALS[draw] if draw < len(HELDOUT_GOALS) else Split.TRAIN


def questions(tasks: Iterable[Sequence[TaskGoal]], split: Split | None = None) -> list[list[TaskGoal]]:
    """Return for each task its goals with each of their questions: all of them, or those of a split.

    Two tasks can have one question, so that a question belongs to one split whatever split its goal has.
    """
    found = [[(goal, each) for goal in goals for each in _questions(goal)] for goals in tasks]
    kept = [[goal._replace(question=q) for goal, q in pairs if split in (None, q.split)] for pairs in found]
    return [goals for goals in kept if goals]


def ask(goal: TaskGoal, question: Question, heldout: bool, seed: int) -> Written:
    draw, slot, label = Random(seed), question.item.spec, question.label.casefold()
    item = draw.choice(slot.say.get(shown(goal.asked[slot.name]), (shown(goal.asked[slot.name]),)))
    words = {"label": label, "item": item, "app": goal.graph.apps[0].name}
    written = phrased(__package__, "question", question.task, words, heldout, draw, "grammar-1")
    return written._replace(said={slot.name: item, question.label: label})


def asking(plan: QueryPlan, goal: TaskGoal, question: Question) -> QueryPlan:
    """Return the plan of a question: the way to its page, then an answer; nothing may be changed."""
    end, item = question.end, next(slot for slot in plan.slots if slot.name == question.item.spec.name)
    pages = goal.path[: goal.path.index(end.page) + 1]
    return plan._replace(
        pages={page: plan.pages[page] for page in pages},
        slots=(item, Slot(name=question.label, value=ASKED, said="", page=end.page)),
        path=tuple(walked.path_to(goal.graph, pages, goal.asked, end)),
        goal=walked.unchanged_json(goal.graph, **{screen_goal.ANSWER: end.text}),
    )


def _questions(goal: TaskGoal) -> Iterator[Question]:
    """Yield the questions about the one item that leads to a page of the goal's path."""
    graph, app = goal.graph, goal.graph.apps[0]
    for at, page in enumerate(goal.path if graph.platform is Platform.PHONE and len(graph.apps) == 1 else ()):
        free = [each for each in graph.slots if each.page in goal.path[:at] and each.is_free and not each.spec.optional]
        for widget in app.screens[place_of(page).name].widgets if len(free) == 1 else ():
            if not isinstance(widget, ItemList) or widget.where != {"name": f"${free[0].widget.sets}"}:
                continue
            label, mark, field = widget.text.partition(": ")
            name, items = goal.asked[free[0].spec.name], app.all_lists()[widget.items] if mark else ()
            values = {each["name"]: bind_text(field, {}, each) for each in items}
            # A value that all items share could be told without a look.
            if name in values and len(set(values.values())) > 1 and label.isalpha() and not widget.variable:
                target = f"{page}/{widget.id}/{name}"
                yield Question(
                    free[0], label, PathStep(page=page, operation=walked.ANSWER, target=target, text=values[name])
                )
