"""The agent of CODA (paper CODA, 3.2): the Planner thinks, the Executor turns the thought into an action."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trajmill.schemas.actions import action_to_json
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles.role_model import PromptedRole
from trajmill.stages.agents.roles.sections import numbered, one_line

PLAN = "plan"
"""The role output of a step: the Planner's thought p."""


@dataclass(frozen=True, slots=True)
class CodaAgent:
    """The roles; without a Planner, which is None then, the Executor acts alone."""

    executor: EndToEndAgent
    """Sees the task, the history and the screens as its family shows them, and the Planner's thought."""
    planner: PromptedRole | None
    policy_version: str = ""
    """Version of the policy, where it plays another role than the Executor."""
    name: str = "coda"

    @property
    def model_version(self) -> str:
        """Version of the policy, or else of the Executor's model."""
        return self.policy_version or self.executor.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Plan and act; the stored thought is the Executor's, the Planner's is a role output.

        Raises:
            ModelFailure: a model did not answer.
        """
        thought, calls = await self._thought(episode)
        decision = await self.executor.decide(episode, f"### Thought of the Planner ###\n{thought}" if thought else "")
        return replace(decision, role_outputs={PLAN: thought} if thought else {}, calls=(*calls, *decision.calls))

    async def _thought(self, episode: EpisodeView) -> tuple[str, tuple[AgentCall, ...]]:
        """P of the history, the observation before the last action, and the present one."""
        if self.planner is None:
            return "", ()
        task = one_line(episode.instruction)
        guided = f"{task} Guidance: {one_line(episode.guidance)}" if episode.guidance else task
        screens = (*episode.past_observations[-1:], episode.observation)
        history = numbered(map(_told, episode.history))
        reply = await self.planner.ask(screens, episode, instruction=guided, history=history)
        return one_line(reply.text.rpartition("</think>")[2]), (reply.call,)


def _told(decision: Decision) -> str:
    action = "no action could be read" if decision.action is None else action_to_json(decision.action)
    return f"Plan: {decision.role_outputs.get(PLAN, '')} Action: {action}"
