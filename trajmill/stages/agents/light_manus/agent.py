"""The agent of LightManus (paper NaturalGAIA, 4.1): each atomic task on its device, its answer handed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trajmill.schemas.actions import Answer, SwitchDevice, Terminate
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.light_manus.pathway import PathwayTask, read_pathway
from trajmill.stages.agents.light_manus.workflow import Workflow, read_workflow
from trajmill.stages.agents.roles.role_model import PromptedRole
from trajmill.stages.agents.roles.sections import numbered, one_line, read_items, read_sections

COLLAPSED = "The pathway collapses: "
"""Begins the conclusion of the step that ends a pathway at a failed task."""


@dataclass(frozen=True, slots=True)
class LightManus:
    """The parser, and an executor for each device; without a parser, which is None then, the task is not divided."""

    executors: Mapping[Platform, EndToEndAgent]
    parser: PromptedRole | None
    first: Platform
    """The device at which the episode begins."""
    policy_version: str = ""
    """Version of the policy, where it acts on another device than the first, or on none."""
    name: str = "light_manus"

    @property
    def model_version(self) -> str:
        """Version of the policy, or else of the first executor's model."""
        return self.policy_version or self.executors[self.first].model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Go to the device of the atomic task that is due, or do its next action there.

        An executor ends its task with `Answer` or `Terminate`; then the next task is due. The first task that fails, or
        that gives no answer where one is needed, ends the episode with failure.

        Raises:
            ModelFailure: a model did not answer.
        """
        workflow, calls = await self._workflow(episode)
        while workflow.device is workflow.task.device:
            decision = await self.executors[workflow.device].decide(_of_task(episode, workflow))
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

    async def _workflow(self, episode: EpisodeView) -> tuple[Workflow, tuple[AgentCall, ...]]:
        if episode.history:
            return read_workflow(episode.history[-1].role_outputs), ()
        task = one_line(episode.instruction)
        alone = Workflow((PathwayTask(self.first, task),), self.first)
        if self.parser is None:
            return alone, ()
        devices = numbered(self.executors)
        reply = await self.parser.ask((), episode, instruction=task, devices=devices)
        lines = read_items(read_sections(reply.text).get("atomic tasks", ""))
        tasks = read_pathway(lines, tuple(self.executors))
        return (Workflow(tasks, self.first) if tasks else alone), (reply.call,)


def _of_task(episode: EpisodeView, workflow: Workflow) -> EpisodeView:
    """The episode as the executor of the task sees it: from the task's first step on."""
    return replace(
        episode,
        instruction=workflow.instruction,
        history=episode.history[workflow.begun :],
        past_observations=episode.past_observations[workflow.begun :],
    )


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
