"""The loop of CES (paper CES, 4.2): the Coordinator instructs, the Executor acts, the State Tracker sums up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trajmill.schemas.actions import action_to_json
from trajmill.schemas.record import content_id
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles.role_model import PromptedRole
from trajmill.stages.agents.roles.sections import NONE, one_line, read_answer

INSTRUCTION, STATE = "instruction", "state"
"""The role outputs of a step: the atomic instruction l, and the state m that the Coordinator was given."""


@dataclass(frozen=True, slots=True)
class CesAgent:
    """The roles; one that is None is switched off.

    Without a Coordinator the Executor is given the task itself, without a State Tracker the state stays empty.
    """

    executor: EndToEndAgent
    """Frozen: it sees the atomic instruction and the screen, neither the task nor the past (equation 2)."""
    coordinator: PromptedRole | None
    state_tracker: PromptedRole | None
    policy_version: str = ""
    """Version of the policy, where it plays another role than the Executor."""
    name: str = "ces"

    @property
    def model_version(self) -> str:
        """Version of the policy, or else of the Executor's model."""
        return self.policy_version or self.executor.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Sum up the step before, instruct, and act.

        Raises:
            ModelFailure: a model did not answer.
        """
        state, tracked = await self._state(episode)
        instruction, coordinated = await self._instruction(episode, state)
        # The Executor's seed must differ between steps, though its history is always empty.
        seed = int(content_id("ces", episode.seed, len(episode.history)), 16) % 2**31
        alone = EpisodeView(instruction, None, episode.observation, (), seed)
        decision = await self.executor.decide(alone)
        outputs = {INSTRUCTION: instruction, STATE: state}
        return replace(
            decision,
            role_outputs={name: text for name, text in outputs.items() if text},
            calls=(*tracked, *coordinated, *decision.calls),
        )

    async def _state(self, episode: EpisodeView) -> tuple[str, tuple[AgentCall, ...]]:
        """The state after the last step (equation 3); empty before the first one."""
        if not episode.history or self.state_tracker is None:
            return "", ()
        last = episode.history[-1]
        before = last.role_outputs.get(STATE, "")
        reply = await self.state_tracker.ask(
            (), episode, instruction=one_line(episode.instruction), output=_output(last), state=before or NONE
        )
        return read_answer(reply.text) or before, (reply.call,)

    async def _instruction(self, episode: EpisodeView, state: str) -> tuple[str, tuple[AgentCall, ...]]:
        """The atomic instruction (equation 1); guidance for the task is part of what the Coordinator is told."""
        task = one_line(episode.instruction)
        if self.coordinator is None:
            return task, ()
        guided = f"{task} Guidance: {one_line(episode.guidance)}" if episode.guidance else task
        reply = await self.coordinator.ask((episode.observation,), episode, instruction=guided, state=state or NONE)
        return read_answer(reply.text) or task, (reply.call,)


def _output(decision: Decision) -> str:
    """The Executor's output u: thought, action, and what it says that it did."""
    action = "no action could be read" if decision.action is None else action_to_json(decision.action)
    return one_line(f"{decision.thought} {action} {decision.conclusion}")
