"""Proposes new training tasks: resets environments to their start states, asks the writer model, refuses leaks.

A proposed task may then be tried once, and its row says whether it is feasible.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.pipelines.drawing import ScreenWriter, stored_screen_writer
from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, fan_out, split_evenly
from trajmill.pipelines.models import Endpoint
from trajmill.pipelines.reading.episodes import queries_of
from trajmill.pipelines.rollout import AttemptJudge, Journaled, RunAttempts
from trajmill.schemas.episode import AttemptRows
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.proposed import without_leaks
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.base import NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import unwalked_queries
from trajmill.stages.queries.proposals.propose import (
    TRIAL_STAGE,
    DecidedProposal,
    ProposalPrompts,
    ProposalSource,
    TaskProposer,
    decide_proposal,
)
from trajmill.stages.queries.proposals.starts import StartingPoint, in_turn, start_screens
from trajmill.stages.rollout.base import Attempt, Limits, episode_seed


class ProposalCounts(NamedTuple):
    """How many tasks are proposed in a round."""

    curriculum: int
    """From example tasks and the success so far."""
    screenshot: int
    """From the first screens of the example tasks."""


@dataclass(frozen=True)
class ProposeTasks(StageWork):
    """The work of one round; its only shard gets the starting points of the example tasks."""

    environment: EnvironmentSpec
    writer: Endpoint
    prompts: ProposalPrompts
    wanted: ProposalCounts
    run_seed: int
    heldout_apps: tuple[str, ...]
    limits: Limits
    environments: int
    """Environments that are open at the same time."""
    in_flight: int
    """Starting points for which the writer is asked at the same time."""
    untried: tuple[Query, ...] = ()
    """Tasks of earlier rounds that are in no table yet, because no attempt at them was judged."""

    def identity(self, starts: Sequence[StartingPoint]) -> object:
        """Return the example tasks and the wanted numbers; the run decides the writer and its prompts."""
        known = [[start.id, start.examples, start.successes] for start in starts]
        return [known, self.wanted, self.run_seed, self.heldout_apps]

    def __call__(self, shard: str, starts: Sequence[StartingPoint]) -> WrittenFiles:
        """Write the proposed queries, their model calls, and a failure for each refused proposal.

        Raises BadInputError if the model cannot be connected.
        """
        existing = (*queries_of(self.warehouse, self.at.run_id).values(), *self.untried)
        calls: list[ModelCall] = []
        with stored_screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:
            made = asyncio.run(self._propose(starts, existing, screens, calls))
        made = without_leaks(made, existing, self.heldout_apps, self.origin)
        return self.written(shard, {"queries": made.queries, "failures": made.failures, "model_calls": calls})

    async def _propose(
        self,
        starts: Sequence[StartingPoint],
        existing: Sequence[Query],
        screens: ScreenWriter,
        calls: list[ModelCall],
    ) -> NewQueries:
        curriculum = in_turn(starts, self.wanted.curriculum, self.at.round)
        screenshot = in_turn(starts, self.wanted.screenshot, self.at.round)
        started = await start_screens(
            list(dict.fromkeys((*curriculum, *screenshot))),
            self.environment.factory,
            lambda start: episode_seed(self.run_seed, self.at.round, start.id, Purpose.TRAIN, 0),
            self.limits,
            self.origin,
            self.environments,
        )
        with_screen = [start for start in screenshot if start.id in started.screens]
        await screens.write(started.screens[start.id] for start in with_screen)
        model = self.writer.open(self.origin, calls.append)
        proposer = TaskProposer(model, self.prompts)
        seed = int(content_id("propose", self.run_seed, self.at.round)[:8], 16)
        unseen = UnseenApps(self.heldout_apps)
        context = SourceContext(self.environment, unseen, seed, self.origin, self.in_flight)
        try:
            reachable = [start for start in curriculum if start.id in started.screens]
            source = ProposalSource(proposer, reachable, existing, self.wanted.curriculum)
            told = await unwalked_queries(source, context)
            shown = [start._replace(screen=started.screens[start.id]) for start in with_screen]
            source = ProposalSource(proposer, shown, (*existing, *told.queries), self.wanted.screenshot)
            seen = await unwalked_queries(source, context)
        finally:
            await model.close()
        return NewQueries((), started.failures).with_more(told).with_more(seen)


def propose_new_tasks(work: ProposeTasks, starts: Sequence[StartingPoint], beam: BeamSettings) -> WrittenFiles:
    """Propose the tasks of a round and return the files; a second call does nothing more."""
    return work.with_screens(fan_out(work.warehouse, work.at, [starts], work, beam), work.environment.kind)


@dataclass(frozen=True)
class TryProposals:
    """The work of one shard: attempts proposed tasks once, judges the attempts, and writes which tasks are feasible."""

    attempts: RunAttempts
    judge: AttemptJudge

    def identity(self, attempts: Sequence[Attempt]) -> object:
        return [self.attempts.identity(attempts), self.judge.spec.identity()]

    def __call__(self, shard: str, attempts: Sequence[Attempt]) -> WrittenFiles:
        """Write the decided tasks and the rows of their attempts.

        Of an attempt that decides nothing, only the failures and the model calls are written: its query has no row yet.
        """
        queries = {attempt.query.query_id: attempt.query for attempt in attempts}
        decided: list[tuple[AttemptRows, DecidedProposal]] = []
        undecided: list[AttemptRows] = []
        journaled = self.attempts.finish(shard, attempts, self.judge)
        for one in journaled.finished:
            query = queries[one.trajectory.query_id]
            decision = decide_proposal(query, one.trajectory, one.judgement, self.attempts.origin)
            if decision is None:
                undecided.append(one)
            else:
                decided.append((one, decision))
        rows = Journaled([one for one, _ in decided], journaled.unreadable).rows()
        left = Journaled(undecided).rows()
        refusals = [decision.refusal for _, decision in decided if decision.refusal]
        failures = [row.model_copy(update={"stage": TRIAL_STAGE}) for row in (*rows["failures"], *left["failures"])]
        rows |= {
            "queries": [decision.query for _, decision in decided],
            "failures": [*refusals, *failures],
            "model_calls": [*rows["model_calls"], *left["model_calls"]],
        }
        return self.attempts.written(shard, rows, Counter(refused=len(refusals), undecided=len(undecided)))


def try_in_shards(work: TryProposals, attempts: Sequence[Attempt], shards: int, beam: BeamSettings) -> WrittenFiles:
    """Try proposed tasks in `shards` shards and return the files; finished attempts of an earlier call are kept."""
    of = work.attempts
    made = fan_out(of.warehouse, of.at, split_evenly(attempts, shards), work, beam)
    return of.with_screens(made, of.environment.kind)
