"""Finds what is wrong with an episode by the graph of its app.

A problem is something that the graph says for certain. Where the graph does not tell, `JudgeFailure` says so, and the
trajectory stays unjudged.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.wording import mentions
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphStep, act_of
from trajmill.stages.critics.app_graph.path_on_graph import transitions_of, wanted_features
from trajmill.stages.environments.element_names import targets
from trajmill.stages.graphs.base import GraphSlot, Mark, SlotKind
from trajmill.stages.graphs.operations import OFF
from trajmill.stages.graphs.recognise import is_on, page_on, recognises

_MARKED = frozenset({"checked", "selected"})
_NUMBER = re.compile(r"_\d+$")
_PAGE = "page"


class GraphProblem(NamedTuple):
    """Something that is wrong for certain."""

    text: str
    step: int | None
    """Index of the step; None for what is missing at the end."""


def way_problems(episode: GraphEpisode) -> list[GraphProblem]:
    """What was done on the way and is no part of the task; the agent may take any way to the pages of the task.

    Raises:
        JudgeFailure: nothing is wrong for certain, and a step did something that the graph does not know.
    """
    problems = [found for step in episode.steps if (found := _forbidden(step)) is not None]
    wanted = Counter(_acts_of_path(episode))
    for step in episode.steps:
        if step.act and not wanted[step.act]:
            problems.append(GraphProblem(f"it did {step.act!r}, which nobody asked for", step.seen.index))
        wanted[step.act] -= 1
    if not problems:
        _refuse_unknown(episode)
    return problems


def end_problems(episode: GraphEpisode) -> list[GraphProblem]:
    """What is missing on the last screen: the page, a value, or the word that the task is done.

    Raises:
        JudgeFailure: the graph does not know the last screen, or a value's slot.
    """
    if not episode.steps[-1].seen.action.ends:
        return [GraphProblem("the agent did not say that it was done", None)]
    graph, end = episode.graph, episode.end
    if not recognises(graph.pages[end].recognise, episode.last):
        other = page_on(graph, episode.last)
        if other is None:
            raise JudgeFailure(f"{episode.query.task}: the graph does not know the last screen")
        return [GraphProblem(f"it ended on the page {other!r}, not on {end!r}", None)]
    missing = [slot for slot in episode.query.slots if not _stands(episode, slot)]
    elements = episode.last.elements or ()
    undone = [each for each in wanted_features(graph, episode.query.path, end) if not is_on(each, elements)]
    return [
        *(GraphProblem(f"{slot.name} is not {slot.value!r} at the end", None) for slot in missing),
        *(GraphProblem(f"{each.text or each.id or each.role!r} does not stand at the end", None) for each in undone),
    ]


def _forbidden(step: GraphStep) -> GraphProblem | None:
    if Mark.DESTRUCTIVE in step.marks and not step.seen.outcome.same:
        return GraphProblem("it did something destructive", step.seen.index)
    return None


def _refuse_unknown(episode: GraphEpisode) -> None:
    for step in episode.steps:
        if not step.known and not step.seen.outcome.same:
            raise JudgeFailure(f"{episode.query.task}: the graph does not know what step {step.seen.index} did")


def _acts_of_path(episode: GraphEpisode) -> list[str]:
    """What the annotated path does beside going from page to page."""
    taken = transitions_of(episode.graph, episode.query.path)
    return [act for each in taken if (act := act_of(each.page, each.transition))]


def _stands(episode: GraphEpisode, slot: Slot) -> bool:
    """Whether the value of a slot stands on the last screen."""
    page = episode.graph.pages[slot.page.partition(".")[2]]
    name = slot.name if slot.name in page.slots else _NUMBER.sub("", slot.name)
    spec = page.slots.get(name) or page.slots.get(name.replace("_", "-"))
    if spec is None:
        if slot.name == _PAGE:
            return True
        raise JudgeFailure(f"{episode.query.task}: the graph does not know the slot {slot.name}")
    elements = targets(episode.last.elements or ())
    if spec.kind is SlotKind.SLIDER:
        return spec.target in elements and elements[spec.target].value == slot.value
    if spec.kind is SlotKind.SWITCH or (spec.kind is SlotKind.CHOICE and not spec.opens):
        found = elements.get(spec.target_of(slot.value))
        marked = found is not None and not _MARKED.isdisjoint(found.states)
        return marked is not _is_off(spec, slot)
    shown = spec.shown_for(slot.value)
    return any(mentions(each.text, shown) or mentions(each.value, shown) for each in elements.values())


def _is_off(spec: GraphSlot, slot: Slot) -> bool:
    return spec.kind is SlotKind.SWITCH and slot.value == OFF
