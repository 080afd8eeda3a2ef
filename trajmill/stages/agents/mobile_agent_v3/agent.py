"""Algorithm 1 of Mobile-Agent-v3 (paper 7.3): plan, act, reflect, note, revise, until the plan is empty.

The episode asks for one decision at a time, so a call of `act` first ends the loop's turn before it (Reflector,
Notetaker, Manager) and then begins the next one (Worker). What the roles decide travels in the role outputs of the
decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import PositiveInt

from trajmill.schemas.actions import Terminate
from trajmill.schemas.observation import Observation
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.base import AgentCall, AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.knowledge import Researcher, Retrieval
from trajmill.stages.agents.replies import (
    FAILURE,
    NONE,
    SUCCESS,
    Plan,
    bounded,
    numbered,
    read_first_plan,
    read_notes,
    read_plan,
    read_reflection,
)
from trajmill.stages.agents.roles import Role, RoleReply, open_acting_role, open_role, without_action
from trajmill.stages.agents.spec import EMBEDDED_ROLE, OFF_ROLE, RolesSpec, given_model

PLAN_FINISHED: Final = "All subgoals are completed."
"""Conclusion of the step with which the Manager ends the episode."""
WORKER_REPORTS: Final = "The Worker reports that nothing is left to do."
WITHOUT_EFFECT: Final = "Without effect: "
"""Before the conclusion of a step that the Reflector found to have failed."""
UNKNOWN: Final = "UNKNOWN"
"""The outcome that the Manager is given after a malformed reply of the Reflector."""


class TaskState(NamedTuple):
    """The plan, the feedback and the notes at one step (paper 7.1.1)."""

    plan: tuple[str, ...] | None
    """Pending subgoals, SS in the paper; empty once the task is done, None before the first well-formed plan."""
    completed: tuple[str, ...] = ()
    """Completed subgoals, CS."""
    notes: tuple[str, ...] = ()
    """All notes so far, N."""
    outcome: str = ""
    """Outcome of the last action, j of F: `SUCCESS` or `FAILURE`; empty before the first one, and if unknown."""
    feedback: str = ""
    """Why the last action failed, phi of F; empty after a success."""

    def outputs(self) -> dict[str, str]:
        """The state as role outputs of a step: one line for each item of a list; what is empty is left out."""
        texts = {
            "plan": "\n".join(map(bounded, self.plan or ())),
            "completed": "\n".join(map(bounded, self.completed)),
            "notes": "\n".join(map(bounded, self.notes)),
            "outcome": self.outcome,
            "feedback": self.feedback,
        }
        return {name: text for name, text in texts.items() if text}


class _Turn(NamedTuple):
    """What the roles have decided before the Worker acts."""

    state: TaskState
    calls: tuple[AgentCall, ...] = ()
    thought: str = ""
    knowledge: str = ""

    def revised(self, reply: RoleReply[Plan]) -> _Turn:
        """The turn with the Manager's plan; a malformed reply changes nothing."""
        turn, plan = self._replace(calls=(*self.calls, *reply.calls)), reply.said
        if plan is None:
            return turn
        state = self.state._replace(plan=plan.pending, completed=plan.completed or self.state.completed)
        return turn._replace(state=state, thought=plan.thought)

    def outputs(self) -> dict[str, str]:
        return self.state.outputs() | ({"knowledge": self.knowledge} if self.knowledge else {})

    def recorded(self, decision: Decision) -> Decision:
        """The decision with the outputs and the calls of all roles, in the order of the calls."""
        return replace(decision, role_outputs=self.outputs(), calls=(*self.calls, *decision.calls))


class ManagerRoles(NamedTuple):
    first: Role
    update: Role


@dataclass(frozen=True, slots=True)
class MobileAgentV3:
    """The roles, one model each; a role that is None is switched off.

    Without a Manager the instruction is the plan and the Worker alone ends the episode, without a Reflector every
    action counts as a success, without a Notetaker nothing is noted, without retrieval the Manager has no knowledge.
    """

    worker: EndToEndAgent
    manager: ManagerRoles | None
    reflector: Role | None
    notetaker: Role | None
    retrieval: Retrieval | None
    name: str = "mobile_agent_v3"

    @property
    def model_version(self) -> str:
        return self.worker.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """The Worker's next action; `Terminate` once the Manager's plan is empty.

        An `Answer` of the Worker ends the episode whatever is pending. If the Worker terminates with success, the
        Manager decides whether the plan is empty then; else the episode ends as a stalemate, with failure. Until the
        Manager gives a well-formed plan, nothing is done. Raises ModelFailure if a model did not answer.
        """
        turn = await self._turn(episode)
        if turn.state.plan is None:
            return without_action("Manager", turn.calls, turn.outputs())
        if not turn.state.plan:
            # The first termination of paper 7.3.
            task = self.worker.task_text(with_outcomes(episode, turn.state))
            return turn.recorded(Decision(turn.thought, Terminate(status="success"), PLAN_FINISHED, prompt=task))
        decision = await self.worker.act(with_outcomes(episode, turn.state), worker_context(turn.state))
        if self.manager is None or decision.action != Terminate(status="success"):
            return turn.recorded(decision)
        # The Worker's report counts if the Manager's plan is empty after it; else the second termination of paper 7.3.
        report = replace(decision, conclusion=f"{WORKER_REPORTS} {decision.conclusion}")
        succeeded = turn.state._replace(outcome=SUCCESS, feedback="")
        reply = await self._revision(self.manager.update, episode, succeeded, report, episode.observation)
        after = turn._replace(calls=(*turn.calls, *decision.calls)).revised(reply)
        action = Terminate(status="failure") if after.state.plan else decision.action
        return after.recorded(replace(decision, action=action, calls=()))

    async def _turn(self, episode: EpisodeView) -> _Turn:
        """Lines 17 to 29: reflect on the last action, take notes after a success, revise the plan."""
        before = read_state(episode.history[-1].role_outputs) if episode.history else TaskState(None)
        if before.plan is None:  # lines 5 to 7: retrieve knowledge, make the plan (equation 5)
            found = await self.retrieval.knowledge(episode) if self.retrieval is not None else RoleReply("", ())
            knowledge, instruction = found.said or "", bounded(episode.instruction)
            if self.manager is None:
                return _Turn(TaskState((instruction,)), found.calls, knowledge=knowledge)
            given = {"instruction": instruction, "knowledge": knowledge or NONE}
            reply = await self.manager.first.ask(episode, read_first_plan, (episode.observation,), **given)
            return _Turn(TaskState(None), found.calls, knowledge=knowledge).revised(reply)
        turn = await self._reflected(episode, before)
        if self.notetaker is not None and turn.state.outcome == SUCCESS:
            turn = await self._noted(episode, turn, self.notetaker)
        if self.manager is None:
            return turn
        last, seen = episode.history[-1], episode.past_observations[-1]
        return turn.revised(await self._revision(self.manager.update, episode, turn.state, last, seen))

    async def _reflected(self, episode: EpisodeView, state: TaskState) -> _Turn:
        """The outcome of the last action (equation 8); of a step without an action, FAILURE without asking."""
        last, before = episode.history[-1], episode.past_observations[-1]
        if self.reflector is None:
            return _Turn(state._replace(outcome=SUCCESS, feedback=""))
        if last.action is None:
            return _Turn(state._replace(outcome=FAILURE, feedback=last.conclusion))
        reply = await self.reflector.ask(
            episode,
            read_reflection,
            (before, episode.observation),
            instruction=bounded(episode.instruction),
            action=self.reflector.action_text(last, self.worker.platform, before.screen.size),
            expectation=bounded(f"{last.thought} {last.conclusion}"),
        )
        outcome, feedback = reply.said or ("", "")
        return _Turn(state._replace(outcome=outcome, feedback=feedback), reply.calls)

    async def _noted(self, episode: EpisodeView, turn: _Turn, notetaker: Role) -> _Turn:
        """The notes of the screen before the action, as line 22 of algorithm 1 has it (equation 9)."""
        reply = await notetaker.ask(
            episode,
            read_notes,
            (episode.past_observations[-1],),
            instruction=bounded(episode.instruction),
            plan=numbered(turn.state.plan or ()),
            notes=numbered(turn.state.notes),
        )
        notes = tuple(dict.fromkeys((*turn.state.notes, *(reply.said or ()))))
        return turn._replace(state=turn.state._replace(notes=notes), calls=(*turn.calls, *reply.calls))

    async def _revision(
        self, manager: Role, episode: EpisodeView, state: TaskState, tried: Decision, before: Observation
    ) -> RoleReply[Plan]:
        """Return the plan after an action (equation 6).

        `tried` is the Worker's decision, `before` the screen before it, and `episode` the one after it; `state` has the
        plan before it, its outcome, and the notes after it.
        """
        return await manager.ask(
            episode,
            read_plan,
            (before,),
            instruction=bounded(episode.instruction),
            completed=numbered(state.completed),
            plan=numbered(state.plan or ()),
            action=manager.action_text(tried, self.worker.platform, before.screen.size),
            description=bounded(tried.conclusion) or NONE,
            outcome=state.outcome or UNKNOWN,
            feedback=bounded(state.feedback) or NONE,
            notes=numbered(state.notes),
        )


def read_state(outputs: Mapping[str, str]) -> TaskState:
    plan, completed, notes = (tuple(outputs.get(name, "").splitlines()) for name in ("plan", "completed", "notes"))
    return TaskState(plan or None, completed, notes, outputs.get("outcome", ""), outputs.get("feedback", ""))


def worker_context(state: TaskState) -> str:
    """What stands before the Worker's task (equation 7): plan, completed subgoals, feedback on a failure, notes.

    The Worker is an end-to-end agent, asked in the layout of its model's family, so any GUI model can be one. The text
    is no part of the stored prompt.
    """
    sections = [f"### Overall Plan ###\n{numbered(state.plan or ())}"]
    if state.completed:
        sections.append(f"### Completed Subgoals ###\n{numbered(state.completed)}")
    if state.outcome == FAILURE:
        reason = f": {bounded(state.feedback)}" if state.feedback else ""
        sections.append(f"### Last Action ###\n{FAILURE}{reason}")
    if state.notes:
        sections.append(f"### Important Notes ###\n{numbered(state.notes)}")
    return "\n\n".join(sections)


def with_outcomes(episode: EpisodeView, state: TaskState) -> EpisodeView:
    """Return the episode for the Worker: conclusions of failed steps are marked.

    An action that failed twice in a row is not marked, because a Worker that trusts its history then tries something
    else; the feedback still has the failure.
    """
    states = [*(read_state(decision.role_outputs) for decision in episode.history), state]
    marked, failed_before = list[Decision](), ""
    for decision, after in zip(episode.history, states[1:], strict=True):
        failed = after.outcome == FAILURE and decision.action is not None
        is_first = failed and decision.conclusion != failed_before
        marked.append(replace(decision, conclusion=f"{WITHOUT_EFFECT}{decision.conclusion}") if is_first else decision)
        failed_before = decision.conclusion if failed else ""
    return replace(episode, history=tuple(marked))


class PlanningPrompts(Spec):
    """Your prompt files for a Manager and a Reflector."""

    manager_plan: Path | None = None
    """For the first plan."""
    manager_update: Path | None = None
    """For the plan after an action."""
    reflector: Path | None = None
    """For the outcome of an action."""


def planning_roles(
    spec: RolesSpec, given: AgentModel, files: PlanningPrompts
) -> tuple[ManagerRoles | None, Role | None]:
    """Open the roles `manager` and `reflector` of a spec; None for one that is off."""
    from trajmill.stages.agents.mobile_agent_v3 import embedded

    package = MobileAgentV3.__module__.rpartition(".")[0]
    plans, revises = (
        open_role(spec, given, "manager", embedded.MANAGER, own, f"{prompt}-1", package)
        for prompt, own in (("manager_plan", files.manager_plan), ("manager_update", files.manager_update))
    )
    reflector = open_role(spec, given, "reflector", embedded.REFLECTOR, files.reflector, "", package)
    return ManagerRoles(plans, revises) if plans and revises else None, reflector


class MobileAgentV3Prompts(PlanningPrompts):
    """Your prompt files for the roles (see agents.md)."""

    notetaker: Path | None = None
    """For the notes of a screen."""
    researcher_queries: Path | None = None
    """For the queries of a task."""
    researcher_summary: Path | None = None
    """For the summary of the passages."""


class MobileAgentV3Spec(RolesSpec):
    """Manager, Worker, Reflector and Notetaker (paper Mobile-Agent-v3, 4 and 7); `models.policy` is the Worker."""

    role_names: ClassVar[tuple[str, ...]] = ("manager", "reflector", "notetaker", "retriever", "researcher")

    kind: Literal["mobile_agent_v3"] = "mobile_agent_v3"
    """Four roles: the policy acts as the Worker."""
    manager: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Plans: `embedded` (simple rules on the screen), the NAME of an `[endpoints.NAME]`, or `off`."""
    reflector: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Says whether an action succeeded: `embedded`, the NAME of an `[endpoints.NAME]`, or `off`."""
    notetaker: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Notes what a later screen needs: `embedded`, the NAME of an `[endpoints.NAME]`, or `off`."""
    knowledge: Path | None = None
    """Folder of documents (`.md`, `.txt`) in which the Manager finds knowledge about a task."""
    retriever: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Finds the knowledge: `embedded` (BM25), the NAME of an `[endpoints.NAME]` whose model embeds texts, or `off`."""
    researcher: Annotated[str, OPERATIONAL] = OFF_ROLE
    """Writes the queries and sums up what they find: the NAME of an `[endpoints.NAME]`, `policy`, or `off` (the
    instruction is the query, the passages are the knowledge). Its model needs no images."""
    knowledge_passages: PositiveInt = 3
    """Number of passages for each query."""
    prompts: MobileAgentV3Prompts = MobileAgentV3Prompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.mobile_agent_v3 import embedded

        given, files = given_model(model), self.prompts
        manager, reflector = planning_roles(self, given, files)
        notetaker = open_role(self, given, "notetaker", embedded.NOTETAKER, files.notetaker)
        retrieval = self._retrieval(given)
        return lambda query: MobileAgentV3(
            open_acting_role(self, given, "worker", query.platform), manager, reflector, notetaker, retrieval
        )

    def _retrieval(self, given: AgentModel) -> Retrieval | None:
        if self.knowledge is None or self.retriever == OFF_ROLE:
            return None
        from trajmill.stages.agents.knowledge import KeywordIndex, MeaningIndex, read_passages
        from trajmill.stages.models.wrapped import embedding_model

        passages, model = read_passages(self.knowledge), given.roles.get("retriever")
        index = KeywordIndex(passages) if model is None else MeaningIndex(passages, embedding_model(model))
        files = self.prompts
        queries = open_role(self, given, "researcher", None, files.researcher_queries, "researcher_queries-1")
        summary = open_role(self, given, "researcher", None, files.researcher_summary, "researcher_summary-1")
        researcher = Researcher(queries, summary) if queries and summary else None
        return Retrieval(partial(index.retrieve, most=self.knowledge_passages), researcher)
