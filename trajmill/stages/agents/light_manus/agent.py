"""The agent of LightManus (paper NaturalGAIA, 4.1): each atomic task on its device, its answer handed on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from trajmill.schemas.actions import Answer, SwitchDevice, Terminate
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.light_manus.pathway import PathwayTask, Workflow, read_division, read_workflow
from trajmill.stages.agents.replies import numbered, one_line, read_items
from trajmill.stages.agents.roles import EmbeddedQuestion, EmbeddedRole, Role, without_action

COLLAPSED = "The pathway collapses: "
"""Begins the conclusion of the step that ends a pathway at a failed task."""
_NAMED = re.compile(r"(?:^|(?<=[.;,] ))(?:and |then )*on the (phone|desktop|web),? ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LightManus:
    """The parser, and an executor for each device; without a parser, which is None then, the task is not divided."""

    executors: Mapping[Platform, EndToEndAgent]
    parser: Role | None
    first: Platform
    """The device at which the episode begins."""
    policy_version: str = ""
    """Version of the policy, where it acts on another device than the first, or on none."""
    name: str = "light_manus"

    @property
    def model_version(self) -> str:
        return self.policy_version or self.executors[self.first].model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Go to the device of the atomic task that is due, or do its next action there.

        Until the parser gives a well-formed division, nothing is done. An executor ends its task with `Answer` or
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
            decision = await self.executors[workflow.device].act(of_task)
            calls = (*calls, *decision.calls)
            recorded = replace(decision, role_outputs=workflow.outputs(), calls=calls)
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
            if workflow.at_last:
                return recorded
            workflow = workflow.done(answer, len(episode.history))
        return _switched(workflow, len(episode.history), calls)

    async def _workflow(self, episode: EpisodeView) -> tuple[Workflow | None, tuple[AgentCall, ...]]:
        known = read_workflow(episode.history[-1].role_outputs) if episode.history else None
        if known is not None:
            return known, ()
        task = one_line(episode.instruction)
        if self.parser is None:
            return Workflow((PathwayTask(self.first, task),), self.first), ()
        read = partial(read_division, devices=tuple(self.executors))
        reply = await self.parser.ask(episode, read, instruction=task, devices=numbered(self.executors))
        if reply.said is None:
            return None, reply.calls
        return Workflow(reply.said, self.first, begun=len(episode.history)), reply.calls


def _switched(workflow: Workflow, step: int, calls: tuple[AgentCall, ...]) -> Decision:
    """The decision to go to the device of the task that is due, which begins at the step after this one."""
    device = workflow.task.device
    there = workflow._replace(device=device, begun=step + 1)
    return Decision(
        f"The next atomic task is due on the {device}: {workflow.instruction}",
        SwitchDevice(device=device.value),
        f"Went to the {device}.",
        role_outputs=there.outputs(),
        calls=calls,
    )


def embedded_parser() -> EmbeddedRole:
    """One atomic task for each part that begins with "On the phone", "On the desktop" or "On the web"; no answers."""
    return EmbeddedRole("embedded-parser-1", _parsed)


def _parsed(asked: EmbeddedQuestion) -> str:
    request, devices = asked.section("user request"), read_items(asked.section("devices"))
    before, *parts = _NAMED.split(request)
    named = list(zip(parts[::2], parts[1::2], strict=True))
    tasks = [f"[{device.casefold()}] {said.strip(' ,;')}" for device, said in named]
    if before.strip() or not tasks:
        tasks = [f"[{devices[0]}] {request}"]
    return f"### Thought ###\nThe request names its devices.\n### Atomic Tasks ###\n{numbered(tasks)}"
