"""Writes the operations, the start state and the goal check of a causal pathway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.recognise import fill
from trajmill.stages.queries.causal.pathway import CausalPathway, PathwayNode
from trajmill.stages.queries.graph.goal import goal_json, merged
from trajmill.stages.queries.graph.source import steps_of

_NUMBER = re.compile(r"#\d+$")


def is_simulated(graph: AppGraph) -> bool:
    """Whether an app is opened from the launcher of the simulated devices."""
    return any(step.page == LAUNCHER for step in graph.opening)


def pathway_path(pathway: CausalPathway) -> tuple[PathStep, ...]:
    """The steps of all atomic tasks; where the device changes, a step goes to it."""
    steps: list[PathStep] = []
    device = pathway.first
    for node in pathway.nodes:
        if node.graph.platform is not device:
            device = node.graph.platform
            steps.append(PathStep(page=str(device), operation="switch", target=str(device)))
        steps += _steps_of_task(node)
    last = pathway.nodes[-1]
    return (*steps, PathStep(page=f"{last.graph.app}.{last.sample.end}", operation="finish", target=""))


def pathway_start(pathway: CausalPathway, several_devices: bool) -> str:
    """The start state: those of the apps, with all items that answers are read from."""
    states: dict[Platform, dict[str, Any]] = {}
    for node in pathway.nodes:
        prepared = fill(node.answer.prepare, node.values) if node.answer else {}
        before = states.get(node.graph.platform, {})
        states[node.graph.platform] = merged(merged(before, node.graph.start_state), prepared)
    whole = {"devices": states} if several_devices else states[pathway.first]
    return json.dumps(whole, sort_keys=True, ensure_ascii=False)


def pathway_goal(pathway: CausalPathway, several_devices: bool) -> str:
    """The goal: each answer was seen in its turn, and the last screen is that of the last task."""
    seen = [
        {
            "showing": [{"target": fill(node.answer.target, node.values), "text": fill(node.answer.text, node.values)}],
            **({"device": node.graph.platform} if several_devices else {}),
        }
        for node in pathway.nodes
        if node.answer
    ]
    goal: dict[str, Any] = json.loads(goal_json(pathway.nodes[-1].sample))
    return json.dumps({PATHWAY: seen, **goal}, ensure_ascii=False)


def _steps_of_task(node: PathwayNode) -> Iterator[PathStep]:
    graph, done = node.graph, steps_of(node.sample)
    if is_simulated(graph):
        yield PathStep(page=LAUNCHER, operation="open", target=graph.title)
        yield from _in_simulated_app(done)
    else:
        yield from (*graph.opening, *done)
    if node.answer:
        target = fill(node.answer.target, node.values)
        yield PathStep(page=f"{graph.app}.{node.sample.end}", operation="scroll", target=target)


def _in_simulated_app(steps: Sequence[PathStep]) -> Iterator[PathStep]:
    """The steps as the walk of simulated apps has them: it scrolls by itself, and `type` presses the field."""
    following: Iterable[PathStep | None] = (*steps[1:], None)
    for step, after in zip(steps, following, strict=True):
        is_focus = after is not None and after.operation == "replace" and after.target == step.target
        if step.operation == "scroll" or is_focus:
            continue
        target = _NUMBER.sub("", step.target)
        operation = "type" if step.operation == "replace" else step.operation
        # A menu is a page of the graph, but no page of the app.
        yield step.model_copy(update={"page": target.partition("/")[0], "operation": operation, "target": target})
