"""The Manager: decomposes the task into subgoals, and revises them after each action (paper 7.2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import AgentCall, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.task_state import TaskState
from trajmill.stages.agents.roles.role_model import RoleModel
from trajmill.stages.agents.roles.sections import NONE, numbered, one_line, read_items, read_sections
from trajmill.stages.models.prompts import Prompt, own_or_packaged

PACKAGE = "trajmill.stages.agents.mobile_agent_v3"
FINISHED = "finished"
"""What the Manager writes in place of an empty plan."""
_PLAN_FIELDS = frozenset({"instruction", "knowledge"})
_UPDATE_FIELDS = frozenset(
    {"instruction", "completed", "plan", "action", "description", "outcome", "feedback", "notes"}
)


class TriedAction(NamedTuple):
    """An action that the Manager is told about."""

    action: str
    """The action as JSON, or what stands for it."""
    description: str
    """What the Worker says of it."""
    screen: Observation
    """The screen before it."""


class PlanReply(NamedTuple):
    """A plan of the Manager."""

    thought: str
    plan: tuple[str, ...]
    """Pending subgoals; empty once the task is done."""
    completed: tuple[str, ...]
    call: AgentCall


@dataclass(frozen=True, slots=True)
class Manager:
    """Asks the model behind the Manager's role."""

    role: RoleModel
    first: Prompt
    update: Prompt

    async def plan(self, episode: EpisodeView, knowledge: str) -> PlanReply:
        """The first plan (equation 5); a reply without one gives the instruction as the only subgoal.

        Raises:
            ModelFailure: the model did not answer.
        """
        filled = self.first.fill(instruction=one_line(episode.instruction), knowledge=knowledge or NONE)
        reply = await self.role.ask(filled, (episode.observation,), episode)
        sections = read_sections(reply.text)
        plan = read_items(sections.get("plan", "")) or (one_line(episode.instruction),)
        return PlanReply(sections.get("thought", ""), plan, (), reply.call)

    async def revise(self, episode: EpisodeView, state: TaskState, tried: TriedAction) -> PlanReply:
        """The plan after an action (equation 6); a reply without a plan leaves it as it is.

        Args:
            episode: the episode after the action.
            state: the plan before it, with its outcome, and the notes after it.
            tried: the action.

        Raises:
            ModelFailure: the model did not answer.
        """
        filled = self.update.fill(
            instruction=one_line(episode.instruction),
            completed=numbered(state.completed),
            plan=numbered(state.plan),
            action=one_line(tried.action),
            description=one_line(tried.description) or NONE,
            outcome=state.outcome,
            feedback=one_line(state.feedback) or NONE,
            notes=numbered(state.notes),
        )
        reply = await self.role.ask(filled, (tried.screen,), episode)
        sections = read_sections(reply.text)
        finished = sections.get("plan", "").casefold().rstrip(".") == FINISHED
        plan = () if finished else read_items(sections.get("plan", "")) or state.plan
        completed = read_items(sections.get("completed subgoals", "")) or state.completed
        return PlanReply(sections.get("thought", ""), plan, completed, reply.call)


def open_manager(role: RoleModel, first: Path | None, update: Path | None) -> Manager:
    """The Manager with the user's prompts, or those of the package.

    Raises:
        BadInputError: a prompt file cannot be read, or misses a section or a field.
    """
    return Manager(
        role,
        own_or_packaged(first, PACKAGE, "manager_plan-1", _PLAN_FIELDS),
        own_or_packaged(update, PACKAGE, "manager_update-1", _UPDATE_FIELDS),
    )
