"""Algorithm 1 of Mobile-Agent-v3 (paper 7.3): plan, act, reflect, note, revise, until the plan is empty.

The episode asks for one decision at a time, so a call of `act` first ends the loop's turn before it (Reflector,
Notetaker, Manager) and then begins the next one (Worker).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from trajmill.schemas.actions import Terminate, action_to_json
from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.mobile_agent_v3.manager import Manager, PlanReply, TriedAction
from trajmill.stages.agents.mobile_agent_v3.notetaker import Notetaker
from trajmill.stages.agents.mobile_agent_v3.reflector import Reflector
from trajmill.stages.agents.mobile_agent_v3.task_state import SUCCESS, TaskState, read_state
from trajmill.stages.agents.mobile_agent_v3.worker import with_outcomes, worker_context
from trajmill.stages.agents.roles.sections import one_line

PLAN_FINISHED = "All subgoals are completed."
"""Conclusion of the step with which the Manager ends the episode."""
WORKER_REPORTS = "The Worker reports that nothing is left to do."

Retriever = Callable[[str], Awaitable[tuple[str, ...]]]
"""Gives the passages for an instruction, best first."""


class _Turn(NamedTuple):
    """What the roles have said before the Worker acts."""

    state: TaskState
    calls: tuple[AgentCall, ...] = ()
    thought: str = ""
    """Of the Manager."""
    knowledge: str = ""

    def revised(self, reply: PlanReply) -> _Turn:
        state = self.state._replace(plan=reply.plan, completed=reply.completed)
        return self._replace(state=state, calls=(*self.calls, reply.call), thought=reply.thought)

    def recorded(self, decision: Decision) -> Decision:
        """The decision with the outputs and the calls of all roles, in the order of the calls."""
        outputs = {**self.state.outputs(), **({"knowledge": self.knowledge} if self.knowledge else {})}
        return replace(decision, role_outputs=outputs, calls=(*self.calls, *decision.calls))


@dataclass(frozen=True, slots=True)
class MobileAgentV3:
    """The roles, one model each; a role that is None is switched off.

    Without a Manager the instruction is the plan and the Worker alone says when it is done, without a Reflector every
    action counts as a success, without a Notetaker nothing is noted, without a retriever the Manager knows nothing.
    """

    worker: EndToEndAgent
    manager: Manager | None
    reflector: Reflector | None
    notetaker: Notetaker | None
    retrieve: Retriever | None
    name: str = "mobile_agent_v3"

    @property
    def model_version(self) -> str:
        """Version of the Worker's model."""
        return self.worker.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """The Worker's next action; `Terminate` once the Manager's plan is empty.

        An `Answer` of the Worker ends the episode whatever is pending. If the Worker terminates with success, the
        Manager says whether the plan is empty then; else the episode ends as a stalemate, with failure.

        Raises:
            ModelFailure: a model did not answer.
        """
        turn = await self._turn(episode) if episode.history else await self._first_turn(episode)
        if not turn.state.plan:
            return turn.recorded(self._finished(episode, turn))
        decision = await self.worker.decide(with_outcomes(episode, turn.state), worker_context(turn.state))
        match decision.action:
            case Terminate(status="success") if self.manager is not None:
                return await self._confirmed(self.manager, episode, turn, decision)
            case _:
                return turn.recorded(decision)

    async def _first_turn(self, episode: EpisodeView) -> _Turn:
        """Lines 5 to 7: retrieve knowledge, make the plan."""
        found = await self.retrieve(episode.instruction) if self.retrieve is not None else ()
        knowledge = "\n\n".join(map(one_line, found))
        start = _Turn(TaskState((one_line(episode.instruction),)), knowledge=knowledge)
        return start if self.manager is None else start.revised(await self.manager.plan(episode, knowledge))

    async def _turn(self, episode: EpisodeView) -> _Turn:
        """Lines 17 to 29: reflect on the last action, take notes after a success, revise the plan."""
        last, before = episode.history[-1], episode.past_observations[-1]
        turn = await self._reflected(episode, before, last)
        if self.notetaker is not None and turn.state.outcome == SUCCESS:
            noted = await self.notetaker.note(episode, before, turn.state)
            turn = turn._replace(state=turn.state.noted(noted.notes), calls=(*turn.calls, noted.call))
        if self.manager is None:
            return turn
        tried = TriedAction(_action_text(last), last.conclusion, before)
        return turn.revised(await self.manager.revise(episode, turn.state, tried))

    async def _reflected(self, episode: EpisodeView, before: Observation, last: Decision) -> _Turn:
        state = read_state(last.role_outputs)
        if self.reflector is None:
            return _Turn(state._replace(outcome=SUCCESS, feedback=""))
        outcome, feedback, call = await self.reflector.reflect(episode, before, last)
        return _Turn(state._replace(outcome=outcome, feedback=feedback), (call,) if call is not None else ())

    def _finished(self, episode: EpisodeView, turn: _Turn) -> Decision:
        """The decision of the Manager: the first termination of paper 7.3."""
        task = self.worker.task_text(with_outcomes(episode, turn.state))
        return Decision(turn.thought, Terminate(status="success"), PLAN_FINISHED, prompt=task)

    async def _confirmed(self, manager: Manager, episode: EpisodeView, turn: _Turn, decision: Decision) -> Decision:
        """The Worker's report, if the Manager's plan is empty after it, else the second termination of paper 7.3."""
        tried = TriedAction(_action_text(decision), f"{WORKER_REPORTS} {decision.conclusion}", episode.observation)
        reply = await manager.revise(episode, turn.state._replace(outcome=SUCCESS, feedback=""), tried)
        state = turn.state._replace(plan=reply.plan, completed=reply.completed)
        asked = (*turn.calls, *decision.calls, reply.call)
        action = Terminate(status="failure") if reply.plan else decision.action
        return turn._replace(state=state, calls=asked).recorded(replace(decision, action=action, calls=()))


def _action_text(decision: Decision) -> str:
    return "no action could be read" if decision.action is None else action_to_json(decision.action)
