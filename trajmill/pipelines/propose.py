"""Proposes new training tasks: resets environments to their start states, asks the writer model, refuses leaks.

A proposed task may then be tried once, and its row says whether it is feasible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trajmill.pipelines.drawing import ScreenWriter, stored_screen_writer
from trajmill.pipelines.fan_out import StageWork, WrittenFiles, run_coroutine
from trajmill.pipelines.judge import judging
from trajmill.pipelines.reading.episodes import queries_of
from trajmill.pipelines.rollout import Journaled, RunAttempts
from trajmill.schemas.episode import AttemptRows
from trajmill.schemas.record import content_id
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.curate.leaks import usable_proposals
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.prompts import Prompt, PromptedModel
from trajmill.stages.models.spec import Endpoint, OpenEndpoints
from trajmill.stages.queries.base import NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import unwalked_queries
from trajmill.stages.queries.pathways.programs import PathwayProgram, WalkBounds, WalkResult
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.proposals.source import (
    TRIAL_STAGE,
    DecidedProposal,
    ProposalSource,
    StartingPoint,
    decide_proposal,
    in_turn,
    start_screens,
)
from trajmill.stages.queries.written import QueryPrompts
from trajmill.stages.rollout.base import Attempt, episode_seed


@dataclass(frozen=True)
class ProposeTasks(StageWork[Sequence[StartingPoint]]):
    environment: EnvironmentSpec
    writer: Endpoint
    prompts: QueryPrompts
    curriculum: int
    """Tasks that are wanted from examples and success."""
    screenshot: int
    """Tasks that are wanted from start screens."""
    run_seed: int
    heldout_apps: tuple[str, ...]
    environments: int
    in_flight: int
    """Starting points for which the writer is asked at the same time."""
    untried: tuple[Query, ...] = ()
    """Tasks of earlier rounds that are in no table yet, because no attempt at them was judged."""

    def identity(self, starts: Sequence[StartingPoint]) -> object:
        """Return the example tasks and the wanted numbers; the run decides the writer and its prompts."""
        known = [[start.id, start.examples, start.successes] for start in starts]
        return [known, [self.curriculum, self.screenshot], self.run_seed, self.heldout_apps]

    def __call__(self, shard: str, starts: Sequence[StartingPoint]) -> WrittenFiles:
        existing = (*queries_of(self.warehouse, self.at.run_id).values(), *self.untried)
        calls: list[ModelCall] = []
        with stored_screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:
            made = run_coroutine(self._propose(starts, existing, screens, calls))
        made = usable_proposals(made, existing, self.heldout_apps, self.origin)
        return self.written(shard, {"queries": made.queries, "failures": made.failures, "model_calls": calls})

    async def _propose(
        self, starts: Sequence[StartingPoint], existing: Sequence[Query], screens: ScreenWriter, calls: list[ModelCall]
    ) -> NewQueries:
        curriculum = in_turn(starts, self.curriculum, self.at.round)
        screenshot = in_turn(starts, self.screenshot, self.at.round)
        started = await start_screens(
            list(dict.fromkeys((*curriculum, *screenshot))),
            self.environment.factory,
            lambda start: episode_seed(self.run_seed, self.at.round, start.id, Purpose.TRAIN, 0),
            self.origin,
            self.environments,
        )
        with_screen = [start for start in screenshot if start.id in started.screens]
        await screens.write(started.screens[start.id] for start in with_screen)
        seed = int(content_id("propose", self.run_seed, self.at.round)[:8], 16)
        unseen = UnseenApps(self.heldout_apps)
        context = SourceContext(self.environment, unseen, seed, self.origin, self.in_flight)
        async with OpenEndpoints(self.origin, calls.append) as endpoints:
            model = endpoints.model(self.writer)
            reachable = [start for start in curriculum if start.id in started.screens]
            source = ProposalSource(model, self.prompts, reachable, existing, self.curriculum)
            told = await unwalked_queries(source, context)
            shown = [start._replace(screen=started.screens[start.id]) for start in with_screen]
            source = ProposalSource(model, self.prompts, shown, (*existing, *told.queries), self.screenshot)
            seen = await unwalked_queries(source, context)
        return NewQueries((), started.failures).with_more(told).with_more(seen)


@dataclass(frozen=True, kw_only=True)
class TryProposals(RunAttempts):
    judge: JudgeSpec
    critics: CriticModels

    def identity(self, attempts: Sequence[Attempt]) -> object:
        return [super().identity(attempts), self.judge.identity()]

    def __call__(self, shard: str, attempts: Sequence[Attempt]) -> WrittenFiles:
        """Write the decided tasks and the rows of their attempts.

        Of an attempt that decides nothing, only the failures and the model calls are written: its query has no row yet.
        """
        queries = {attempt.query.query_id: attempt.query for attempt in attempts}
        journaled = self.run(shard, attempts, judging(self.judge, self.critics, self.origin))
        decided: list[tuple[AttemptRows, DecidedProposal]] = []
        for one in journaled.finished:
            query = queries[one.trajectory.query_id]
            if decision := decide_proposal(query, one.trajectory, one.judgement, self.origin):
                decided.append((one, decision))
        every, rows = journaled.rows(), Journaled([one for one, _ in decided]).rows()
        refusals = [decision.refusal for _, decision in decided if decision.refusal]
        failures = [row.model_copy(update={"stage": TRIAL_STAGE}) for row in every["failures"]]
        rows |= {
            "queries": [decision.query for _, decision in decided],
            "failures": [*refusals, *failures],
            "model_calls": every["model_calls"],
        }
        undecided = len(journaled.finished) - len(decided)
        return self.written(shard, rows, Counter(refused=len(refusals), undecided=undecided))


@dataclass(frozen=True)
class WalkPrograms(StageWork[PathwayProgram]):
    environment: EnvironmentSpec
    bounds: WalkBounds
    second_opinion: Endpoint | None
    selection: Prompt

    def identity(self, program: PathwayProgram) -> object:
        return [program.model_dump(), self.bounds.model_dump(), identity_of(self.environment)]

    def __call__(self, shard: str, program: PathwayProgram) -> WrittenFiles:
        calls: list[ModelCall] = []
        with stored_screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:
            found = run_coroutine(self._walk(program, screens, calls))
        rows = {"pathways": found.pathways, "failures": found.failures, "model_calls": calls}
        return self.written(shard, rows, Counter(f"{row.input_id}: {row.message}" for row in found.failures))

    async def _walk(self, program: PathwayProgram, screens: ScreenWriter, calls: list[ModelCall]) -> WalkResult:
        async with OpenEndpoints(self.origin, calls.append) as endpoints:
            factory = self.environment.factory(program.platform)
            endpoints.push_async_callback(factory.close)
            asked = self.second_opinion
            opinion = PromptedModel(endpoints.model(asked), self.selection) if asked else None
            found = await collect_pathways(factory, program, self.bounds, self.origin, opinion)
        await screens.write(found.screens.values())
        return found
