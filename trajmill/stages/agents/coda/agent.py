"""The agent of CODA (paper CODA, 3.2): the Planner thinks, the Executor turns the thought into an action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.base import AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.replies import bounded, numbered, read_items, read_sections, read_thought
from trajmill.stages.agents.roles import (
    EmbeddedQuestion,
    EmbeddedRole,
    Role,
    open_acting_role,
    open_role,
    without_action,
)
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

PLAN = "plan"
"""The role output of a step: the Planner's thought p."""
_HINTS = " Guidance: "
"""Stands between task and guidance in the Planner's prompt, as `without_guidance` knows."""


@dataclass(frozen=True, slots=True)
class CodaAgent:
    """The roles; without a Planner, which is None then, the Executor acts alone."""

    executor: EndToEndAgent
    """Sees what the Planner sees, as its family shows it, and the Planner's thoughts (CODA 3.2)."""
    planner: Role | None
    model_version: str
    """Version of the policy, whichever role it plays."""
    name: str = "coda"

    async def act(self, episode: EpisodeView) -> Decision:
        """Plan and act; the stored thought is the Executor's, the Planner's is a role output.

        The Planner's thought is P of the history, the observation before the last action, and the present one. After a
        malformed reply of the Planner nothing is done at this step. Raises ModelFailure if a model did not answer.
        """
        if self.planner is None:
            return await self.executor.act(episode)
        task = bounded(episode.instruction)
        guided = f"{task}{_HINTS}{bounded(episode.guidance)}" if episode.guidance else task
        screens = (*episode.past_observations[-1:], episode.observation)
        past = []
        for decision, seen in zip(episode.history, episode.past_observations, strict=True):
            action = self.planner.action_text(decision, self.executor.platform, seen.screen.size)
            past.append(f"Plan: {decision.role_outputs.get(PLAN, '')} Action: {action}")
        planned = await self.planner.ask(episode, read_thought, screens, instruction=guided, history=numbered(past))
        if planned.said is None:
            return without_action("Planner", planned.calls, {})
        # The Executor has the history of actions from its family's prompt; the thoughts and the last screen are added.
        plans = [decision.role_outputs.get(PLAN, "") for decision in episode.history]
        earlier = f"### Thoughts So Far ###\n{numbered(plans)}\n\n" if any(plans) else ""
        context = f"{earlier}### Thought of the Planner ###\n{planned.said}"
        before = () if self.executor.family.past_screens else screens[:-1]
        decision = await self.executor.act(episode, context, before)
        return replace(decision, role_outputs={PLAN: planned.said}, calls=(*planned.calls, *decision.calls))


def past_thoughts(asked: str) -> list[str]:
    """Return the Planner's thoughts of the steps before, from the user's text of its prompt."""
    steps = read_items(read_sections(asked).get("steps so far", ""))
    return [step.partition(" Action: ")[0].removeprefix("Plan: ") for step in steps]


def _page_and_task(asked: EmbeddedQuestion) -> str:
    now = asked.screens[-1]
    title = next((e.text for e in now.elements or () if "title" in e.states), now.app)
    ids = {screen.screen.screen_id for screen in asked.screens}
    stuck = " The last action changed nothing." if len(asked.screens) > len(ids) else ""
    task, _, _ = asked.section("task").partition(_HINTS)
    return f'The screen shows "{title}".{stuck} The next step serves the task: {task}'


_PLANNER = EmbeddedRole("embedded-planner-1", _page_and_task)


class CodaPrompts(Spec):
    """Your prompt files for the roles (see agents.md)."""

    planner: Path | None = None
    """For the thought of a step."""


class CodaSpec(RolesSpec):
    """Planner and Executor (paper CODA, 3.2)."""

    role_names: ClassVar[tuple[str, ...]] = ("executor", "planner")

    kind: Literal["coda"] = "coda"
    """Two roles: an Executor that acts, and a Planner that thinks for it."""
    executor: ActingRole = POLICY_MODEL
    """Acts: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]` where the policy has another role."""
    planner: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Writes the thought of each step: `embedded` (names the page and the task), the NAME of an `[endpoints.NAME]`,
    `policy`, or `off`."""
    prompts: CodaPrompts = CodaPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        given = given_model(model)
        planner = open_role(self, given, "planner", _PLANNER, self.prompts.planner)
        return lambda query: CodaAgent(
            open_acting_role(self, given, "executor", query.platform, "executor"), planner, given.model.version
        )
