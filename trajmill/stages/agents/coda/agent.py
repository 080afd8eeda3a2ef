"""The agent of CODA (paper CODA, 3.2): the Planner thinks, the Executor turns the thought into an action."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trajmill.schemas.geometry import Size
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.replies import numbered, one_line, read_thought
from trajmill.stages.agents.roles import EmbeddedQuestion, EmbeddedRole, Role, RoleReply, without_action

PLAN = "plan"
"""The role output of a step: the Planner's thought p."""


@dataclass(frozen=True, slots=True)
class CodaAgent:
    """The roles; without a Planner, which is None then, the Executor acts alone."""

    executor: EndToEndAgent
    """Sees the task, the history and the screens as its family shows them, and the Planner's thought."""
    planner: Role | None
    policy_version: str = ""
    """Version of the policy, where it plays another role than the Executor."""
    name: str = "coda"

    @property
    def model_version(self) -> str:
        return self.policy_version or self.executor.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Plan and act; the stored thought is the Executor's, the Planner's is a role output.

        After a malformed reply of the Planner nothing is done at this step.

        Raises:
            ModelFailure: a model did not answer.
        """
        if self.planner is None:
            return await self.executor.act(episode)
        planned = await self._thought(episode, self.planner)
        if planned.said is None:
            return without_action("Planner", planned.calls, {})
        decision = await self.executor.act(episode, f"### Thought of the Planner ###\n{planned.said}")
        return replace(decision, role_outputs={PLAN: planned.said}, calls=(*planned.calls, *decision.calls))

    async def _thought(self, episode: EpisodeView, planner: Role) -> RoleReply[str]:
        """P of the history, the observation before the last action, and the present one."""
        task = one_line(episode.instruction)
        guided = f"{task} Guidance: {one_line(episode.guidance)}" if episode.guidance else task
        screens = (*episode.past_observations[-1:], episode.observation)
        past = zip(episode.history, episode.past_observations, strict=True)
        history = numbered(self._past_step(planner, decision, seen.screen.size) for decision, seen in past)
        return await planner.ask(episode, read_thought, screens, instruction=guided, history=history)

    def _past_step(self, planner: Role, decision: Decision, screen: Size) -> str:
        action = planner.action_text(decision, self.executor.platform, screen)
        return f"Plan: {decision.role_outputs.get(PLAN, '')} Action: {action}"


def embedded_planner() -> EmbeddedRole:
    """Says which page is shown, whether the last action changed it, and what the task is."""
    return EmbeddedRole("embedded-planner-1", _page_and_task)


def _page_and_task(asked: EmbeddedQuestion) -> str:
    now = asked.screens[-1]
    title = next((e.text for e in now.elements or () if "title" in e.states), now.app)
    ids = {screen.screen.screen_id for screen in asked.screens}
    stuck = " The last action changed nothing." if len(asked.screens) > len(ids) else ""
    return f'The screen shows "{title}".{stuck} The next step serves the task: {asked.section("task")}'
