"""The loop of CES (paper CES, 4.2): the Coordinator instructs, the Executor acts, the State Tracker sums up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from trajmill.schemas.actions import Action
from trajmill.schemas.record import seed_of
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.base import AgentCall, AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.replies import NONE, bounded, read_instruction, read_state, thinking
from trajmill.stages.agents.roles import (
    EmbeddedQuestion,
    EmbeddedRole,
    Role,
    RoleReply,
    action_without_positions,
    open_acting_role,
    open_role,
    without_action,
)
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

INSTRUCTION, INTENTION, STATE = "instruction", "intention", "state"
"""The role outputs of a step: the Coordinator's atomic instruction l, its thinking, and the state m that it saw."""
TRACKER_PROMPT = "state_tracker-2"
LONGEST_STATE = 350
"""Characters of a state: the embedded State Tracker keeps the latest ones."""


@dataclass(frozen=True, slots=True)
class CesAgent:
    """The roles; one that is None is switched off.

    Without a Coordinator the Executor is given the task itself, without a State Tracker the state stays empty.
    """

    executor: EndToEndAgent
    """Frozen: it sees the atomic instruction and the screen, neither the task nor the past (equation 2)."""
    coordinator: Role | None
    state_tracker: Role | None
    model_version: str
    """Version of the policy, whichever role it plays."""
    name: str = "ces"

    async def act(self, episode: EpisodeView) -> Decision:
        """Sum up the step before, instruct, and act.

        After a malformed reply of the Coordinator nothing is done at this step; after one of the State Tracker the
        state stays as it was. Raises ModelFailure if a model did not answer.
        """
        state, tracked = await self._state(episode)
        instructed = await self._instruction(episode, state)
        kept = {STATE: state} if state else {}
        calls = (*tracked, *instructed.calls)
        if instructed.said is None:
            return without_action("Coordinator", calls, kept)
        # The Executor's seed must differ between steps, though its history is always empty.
        seed = seed_of("ces", episode.seed, len(episode.history))
        alone = EpisodeView(instructed.said, None, episode.observation, (), seed)
        decision = await self.executor.act(alone)
        said = instructed.calls[-1].completion if instructed.calls else None
        thought = thinking(said.text) if said else ""
        outputs = {INSTRUCTION: instructed.said, **({INTENTION: thought} if thought else {}), **kept}
        task = self.executor.task_text(episode)
        return replace(decision, prompt=task, role_outputs=outputs, calls=(*calls, *decision.calls))

    async def _state(self, episode: EpisodeView) -> tuple[str, tuple[AgentCall, ...]]:
        """The state after the last step (equation 3); empty before the first one."""
        if not episode.history or self.state_tracker is None:
            return "", ()
        last = episode.history[-1]
        before = last.role_outputs.get(STATE, "")
        if INSTRUCTION not in last.role_outputs:
            return before, ()
        output = executor_output(last.thought, last.action, last.conclusion)
        reply = await self.state_tracker.ask(
            episode, read_state, instruction=bounded(episode.instruction), output=output, state=before or NONE
        )
        return before if reply.said is None else reply.said, reply.calls

    async def _instruction(self, episode: EpisodeView, state: str) -> RoleReply[str]:
        """The atomic instruction (equation 1); guidance for the task is part of the Coordinator's task."""
        task = bounded(episode.instruction)
        if self.coordinator is None:
            return RoleReply(task, ())
        guided = f"{task} Guidance: {bounded(episode.guidance)}" if episode.guidance else task
        screens = (episode.observation,)
        return await self.coordinator.ask(episode, read_instruction, screens, instruction=guided, state=state or NONE)


def executor_output(thought: str, action: Action | None, conclusion: str) -> str:
    """Return the Executor's output u for the State Tracker: thought, action without positions, and conclusion."""
    return bounded(f"{thought} {action_without_positions(action)} {conclusion}")


def _append_conclusion(asked: EmbeddedQuestion) -> str:
    before, output = asked.section("previous task state"), asked.section("latest output of executor agent")
    done = output.rpartition("}")[2].strip() or output
    state = done if before == NONE else f"{before} {done}"
    return f"<answer>{state[-LONGEST_STATE:]}</answer>"


_COORDINATOR = EmbeddedRole(
    "embedded-coordinator-1", lambda asked: f"<answer>{asked.section('high-level task')}</answer>"
)
_STATE_TRACKER = EmbeddedRole("embedded-state-tracker-1", _append_conclusion)


class CesPrompts(Spec):
    """Your prompt files for the roles (see agents.md)."""

    coordinator: Path | None = None
    """For the atomic instruction."""
    state_tracker: Path | None = None
    """For the summary of what was done."""


class CesSpec(RolesSpec):
    """Coordinator, frozen Executor and State Tracker (paper CES, 4.2)."""

    role_names: ClassVar[tuple[str, ...]] = ("executor", "coordinator", "state_tracker")

    kind: Literal["ces"] = "ces"
    """Three roles: an Executor that acts, and two that tell it what to do."""
    executor: ActingRole = POLICY_MODEL
    """Acts: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]` where the policy has another role."""
    coordinator: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Instructs: `embedded` (hands the task on), the NAME of an `[endpoints.NAME]`, `policy`, or `off`."""
    state_tracker: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Sums up what was done: `embedded`, the NAME of an `[endpoints.NAME]`, `policy`, or `off`. Its model needs no
    images."""
    prompts: CesPrompts = CesPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        given = given_model(model)
        coordinator = open_role(self, given, "coordinator", _COORDINATOR, self.prompts.coordinator)
        tracker = open_role(self, given, "state_tracker", _STATE_TRACKER, self.prompts.state_tracker, TRACKER_PROMPT)
        return lambda query: CesAgent(
            open_acting_role(self, given, "executor", query.platform, "executor"),
            coordinator,
            tracker,
            given.model.version,
        )
