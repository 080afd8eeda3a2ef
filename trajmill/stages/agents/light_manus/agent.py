"""The agent of LightManus (paper NaturalGAIA, 4.1): each atomic task on its device, its answer handed on.

The unit of a device is an executor, the paper's Operator, or Mobile-Agent-v3's Manager, Worker and Reflector around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from trajmill.schemas.actions import Answer, SwitchDevice, Terminate
from trajmill.schemas.spec import OPERATIONAL
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.agents.base import Agent, AgentCall, AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3, PlanningPrompts, planning_roles
from trajmill.stages.agents.replies import Malformed, bounded, numbered, read_atomic_tasks, read_items
from trajmill.stages.agents.roles import (
    EmbeddedQuestion,
    EmbeddedRole,
    Role,
    open_acting_role,
    open_role,
    without_action,
)
from trajmill.stages.agents.spec import EMBEDDED_ROLE, OFF_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

COLLAPSED = "The pathway collapses: "
"""Begins the conclusion of the step that ends a pathway at a failed task."""
_NAMED = re.compile(r"(?:^|(?<=[.;,] ))(?:and |then )*on the (phone|desktop|web),? ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LightManus:
    """The parser, and a unit for each device; without a parser, which is None then, the task is not divided."""

    units: Mapping[Platform, EndToEndAgent | MobileAgentV3]
    parser: Role | None
    first: Platform
    """The device at which the episode begins."""
    model_version: str
    """Version of the policy, on whichever device it acts."""
    name: str = "light_manus"

    async def act(self, episode: EpisodeView) -> Decision:
        """Go to the device of the atomic task that is due, or do its next action there.

        Until the parser gives a well-formed division, nothing is done. A unit ends its task with `Answer` or
        `Terminate`; then the next task is due. The first task that fails, or that gives no answer where one is needed,
        ends the episode with failure. Raises ModelFailure if a model did not answer.
        """
        workflow, calls = await self._workflow(episode)
        if workflow is None:
            return without_action("parser", calls, {})
        while workflow.device is workflow.task.device:
            begun = workflow.begun
            of_task = replace(
                episode,
                instruction=workflow.instruction,
                history=episode.history[begun:],
                past_observations=episode.past_observations[begun:],
            )
            decision = await self.units[workflow.device].act(of_task)
            calls = (*calls, *decision.calls)
            recorded = replace(decision, role_outputs=decision.role_outputs | workflow.outputs(), calls=calls)
            match decision.action:
                case Answer(text=answer):
                    pass
                case Terminate(status="success") if not workflow.task.answer:
                    answer = ""
                case Terminate():
                    conclusion = f"{COLLAPSED}{workflow.task.line()}"
                    return replace(recorded, action=Terminate(status="failure"), conclusion=conclusion)
                case _:
                    return recorded
            if workflow.current == len(workflow.tasks) - 1:
                return recorded
            workflow = workflow.done(answer, len(episode.history))
        device = workflow.task.device
        # The task begins at the step after this one.
        there = workflow._replace(device=device, begun=len(episode.history) + 1)
        return Decision(
            f"The next atomic task is due on the {device}: {workflow.instruction}",
            SwitchDevice(device=device.value),
            f"Went to the {device}.",
            role_outputs=there.outputs(),
            calls=calls,
        )

    async def _workflow(self, episode: EpisodeView) -> tuple[Workflow | None, tuple[AgentCall, ...]]:
        known = read_workflow(episode.history[-1].role_outputs) if episode.history else None
        if known is not None:
            return known, ()
        task = bounded(episode.instruction)
        if self.parser is None:
            return Workflow((PathwayTask(self.first, task),), self.first), ()
        read = partial(read_division, devices=tuple(self.units))
        reply = await self.parser.ask(episode, read, instruction=task, devices=numbered(self.units))
        if reply.said is None:
            return None, reply.calls
        return Workflow(reply.said, self.first, begun=len(episode.history)), reply.calls


def _parsed(asked: EmbeddedQuestion) -> str:
    """One atomic task for each part that begins with "On the phone", "On the desktop" or "On the web"; no answers."""
    request, devices = asked.section("user request"), read_items(asked.section("devices"))
    before, *parts = _NAMED.split(request)
    named = list(zip(parts[::2], parts[1::2], strict=True))
    tasks = [f"[{device.casefold()}] {said.strip(' ,;')}" for device, said in named]
    if before.strip() or not tasks:
        tasks = [f"[{devices[0]}] {request}"]
    return f"### Thought ###\nThe request names its devices.\n### Atomic Tasks ###\n{numbered(tasks)}"


_PARSER = EmbeddedRole("embedded-parser-1", _parsed)


_LINE = re.compile(r"\[(?P<device>\w+)\]\s*(?P<said>.+?)(?:\s*->\s*\{?(?P<answer>[a-z][a-z0-9_]{0,30})\}?)?\s*")
_NEEDED = re.compile(r"\{([a-z][a-z0-9_]{0,30})\}")


class PathwayTask(NamedTuple):
    device: Platform
    instruction: str
    """With the names of answers in braces."""
    answer: str = ""
    """Name of the answer that it gives; empty if nothing needs it."""

    def needs(self) -> frozenset[str]:
        return frozenset(_NEEDED.findall(self.instruction))

    def filled(self, answers: Mapping[str, str]) -> str:
        """The instruction with the answers in place of their names; other braces stay."""
        return _NEEDED.sub(lambda name: answers.get(name[1], name[0]), self.instruction)

    def line(self) -> str:
        return f"[{self.device}] {self.instruction}" + (f" -> {self.answer}" if self.answer else "")


def read_pathway(lines: Collection[str], devices: Collection[Platform]) -> tuple[PathwayTask, ...]:
    """Read the lines of a parser; none if a line has another form or names a device that is not there.

    A pathway is causal: each answer that a task needs is that of an earlier task, and has one name. Else it is none.
    """
    tasks: list[PathwayTask] = []
    known: set[str] = set()
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match["device"].casefold() not in devices:
            return ()
        task = PathwayTask(Platform(match["device"].casefold()), bounded(match["said"]), match["answer"] or "")
        if task.answer in known or not task.needs() <= known:
            return ()
        known |= {task.answer} if task.answer else set()
        tasks.append(task)
    return tuple(tasks)


def read_division(text: str, devices: Collection[Platform]) -> tuple[PathwayTask, ...] | Malformed:
    """Read the reply of a parser: the atomic tasks of a causal pathway."""
    lines = read_atomic_tasks(text)
    if isinstance(lines, Malformed):
        return lines
    return read_pathway(lines, devices) or Malformed("its lines are no causal pathway")


class Workflow(NamedTuple):
    tasks: tuple[PathwayTask, ...]
    device: Platform
    current: int = 0
    begun: int = 0
    answers: tuple[tuple[str, str], ...] = ()

    @property
    def task(self) -> PathwayTask:
        return self.tasks[self.current]

    @property
    def instruction(self) -> str:
        """Its instruction with the answers that it needs."""
        return self.task.filled(dict(self.answers))

    def done(self, answer: str, step: int) -> Workflow:
        answers = (*self.answers, (self.task.answer, bounded(answer))) if self.task.answer else self.answers
        return self._replace(current=self.current + 1, begun=step, answers=answers)

    def outputs(self) -> dict[str, str]:
        texts = {
            "atomic_tasks": "\n".join(task.line() for task in self.tasks),
            "device": str(self.device),
            "current": str(self.current),
            "begun": str(self.begun),
            "answers": "\n".join(f"{name} = {text}" for name, text in self.answers),
            "instruction": self.instruction,
        }
        return {name: text for name, text in texts.items() if text}


def read_workflow(outputs: Mapping[str, str]) -> Workflow | None:
    """The workflow in the role outputs of a step; None if the task is not divided yet."""
    if "atomic_tasks" not in outputs:
        return None
    answers = [line.partition(" = ") for line in outputs.get("answers", "").splitlines()]
    return Workflow(
        read_pathway(outputs["atomic_tasks"].splitlines(), tuple(Platform)),
        Platform(outputs["device"]),
        int(outputs["current"]),
        int(outputs["begun"]),
        tuple((name, text) for name, _, text in answers),
    )


class LightManusPrompts(PlanningPrompts):
    """Your prompt files for the roles (see agents.md)."""

    parser: Path | None = None
    """For the division into atomic tasks."""


class LightManusSpec(RolesSpec):
    """Does each atomic task of a task on its device (paper NaturalGAIA, 4.1); each device has a unit of roles."""

    role_names: ClassVar[tuple[str, ...]] = ("parser", "phone", "desktop", "web", "manager", "reflector")

    kind: Literal["light_manus"] = "light_manus"
    """Tasks across devices, with `environment.kind = "devices"`."""
    parser: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Divides the task: `embedded` (at "On the phone", "On the desktop"), the NAME of an `[endpoints.NAME]`, or `off`.
    Its model needs no images."""
    phone: ActingRole = POLICY_MODEL
    """The executor on the phone: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]`."""
    desktop: ActingRole = POLICY_MODEL
    """The executor on the desktop: `policy`, or the NAME of an `[endpoints.NAME]`."""
    web: ActingRole = POLICY_MODEL
    """The executor in the browser: `policy`, or the NAME of an `[endpoints.NAME]`."""
    manager: Annotated[str, OPERATIONAL] = OFF_ROLE
    """Plans each atomic task on its device and revises the plan after each action, as that of `mobile_agent_v3`:
    `embedded`, the NAME of an `[endpoints.NAME]`, `policy`, or `off`."""
    reflector: Annotated[str, OPERATIONAL] = OFF_ROLE
    """Says whether an action succeeded: `embedded`, the NAME of an `[endpoints.NAME]`, `policy`, or `off`."""
    devices: Annotated[tuple[Platform, ...], Field(min_length=1)] = (Platform.PHONE, Platform.DESKTOP)
    """The devices of the environment: `phone`, `desktop`, `web`."""
    prompts: LightManusPrompts = LightManusPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        given = given_model(model)
        parser = open_role(self, given, "parser", _PARSER, self.prompts.parser)
        manager, reflector = planning_roles(self, given, self.prompts)

        def make(query: Query) -> Agent:
            devices = dict.fromkeys((query.platform, *self.devices))
            executors = {name: open_acting_role(self, given, "executor", name, name) for name in devices}
            units: Mapping[Platform, EndToEndAgent | MobileAgentV3] = executors
            if manager or reflector:
                units = {name: MobileAgentV3(each, manager, reflector, None, None) for name, each in executors.items()}
            return LightManus(units, parser, query.platform, given.model.version)

        return make
