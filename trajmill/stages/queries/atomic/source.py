"""Queries for atomic operations on objects that are drawn by chance (`source = atomic`, GUI-Owl 6.2, computers)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from random import Random
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform, Slot, Source, Split
from trajmill.stages.queries.atomic.operations import AtomicTask, Operation, all_operations, packaged_objects
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    SplitCandidates,
    Written,
    difficulty,
    step_limit,
)
from trajmill.stages.queries.templates import packaged_phrasings, tidy
from trajmill.stages.queries.walk import FINISH

_FEWEST_STEPS = 15
_DRAWS = 8
"""Draws for each query that is wanted."""


class AtomicGoal(NamedTuple):
    """An operation on its objects as a goal."""

    operation: str
    drawn: AtomicTask

    @property
    def task(self) -> str:
        """Name of its task: the program and the operation."""
        return f"{self.drawn.app}.{self.operation}"

    def facts(self) -> GoalFacts | None:
        """Return None: the packaged templates name each object exactly."""
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        """Put the names of the objects into a template of `phrasings.yaml`."""
        rng = Random(seed)
        template = packaged_phrasings(__package__)[self.operation].draw(heldout, rng)
        text = tidy(template.expand(self.task, self.drawn.slots, rng))
        return Written(text, text, f"{self.task}/{template.id}", self.drawn.slots, "atomic-grammar-2")

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """Return the other columns of the query."""
        drawn, page = self.drawn, f"{self.drawn.app}.start"
        path = tuple(step.model_copy(update={"page": page}) for step in (*drawn.path, FINISH))
        return QueryPlan(
            platform=Platform.DESKTOP,
            apps=(drawn.app,),
            source=Source.ATOMIC,
            pages=(page,),
            page_descriptions=("The window that is open at the start.",),
            slots=tuple(Slot(name=slot, value=value, said=value, page=page) for slot, value in drawn.slots.items()),
            path=path,
            start_state=json.dumps({"config": list(drawn.config)}, sort_keys=True),
            goal=json.dumps(drawn.goal, sort_keys=True),
            difficulty=difficulty(path, 1),
            max_steps=step_limit(path, _FEWEST_STEPS),
        )


class AtomicSource(NamedTuple):
    """The packaged operations."""

    wanted: Mapping[Split, int]
    """By split, the queries of each operation; of held-out apps as many as of held-out slots."""
    programs: Collection[str]
    """Programs that may be used, from `AtomicApp`."""

    async def candidates(self, context: SourceContext) -> Offer:
        """Return operations of all splits; an operation on few objects gives fewer queries than are wanted."""
        seen: set[str] = set()
        splits: list[SplitCandidates] = []
        for split in Split:
            wanted = self.wanted[Split.HELDOUT_SLOTS if split is Split.HELDOUT_APPS else split]
            for operation in all_operations() if wanted else ():
                app = operation(packaged_objects(), Random(0)).app
                if app in self.programs and (app in context.unseen.all) == (split is Split.HELDOUT_APPS):
                    stream = _candidates(operation, split, wanted, seen, context.seed)
                    splits.append(SplitCandidates(split, wanted, [stream]))
        return Offer(tuple(splits))


def _candidates(operation: Operation, split: Split, wanted: int, seen: set[str], seed: int) -> Iterator[Candidate]:
    rng = Random(int(content_id("atomic", seed, split, operation.__name__), 16))
    for _ in range(_DRAWS * wanted):
        goal = AtomicGoal(operation.__name__, operation(packaged_objects(), rng))
        words, plan = rng.getrandbits(32), goal.plan({})
        key = content_id(goal.task, sorted(goal.drawn.slots.items()), plan.start_state)
        if key not in seen:
            seen.add(key)
            yield Candidate(goal, split, split is Split.HELDOUT_PHRASINGS, words)
