"""Another agent's decisions with thoughts that read the rows of the screen aloud, to be learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.rows import rows_before


@dataclass(frozen=True, slots=True)
class ReadingAloud:
    """Acts as another agent does."""

    agent: Agent

    @property
    def name(self) -> str:
        """Name of the agent that decides."""
        return self.agent.name

    @property
    def model_version(self) -> str:
        """Version of the policy that decides."""
        return self.agent.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """The agent's decision; a thought is written only where there are an action and an accessibility tree.

        Raises:
            ModelFailure: its model did not answer.
        """
        decision = await self.agent.act(episode)
        elements = episode.observation.elements
        if decision.action is None or elements is None:
            return decision
        return replace(decision, thought=rows_before(decision.action, elements))
