"""Queries for atomic operations on objects that are drawn by chance (`source = atomic`, GUI-Owl 6.2, computers)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from random import Random
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import PathStep, Platform, Slot, Source, Split
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
from trajmill.stages.queries.templates import packaged_phrasings, parse_template, tidy

_FEWEST_STEPS = 15
_DRAWS = 8
"""Draws for each query that is wanted."""


class AtomicGoal(NamedTuple):
    """An operation on its objects as a goal."""

    drawn: AtomicTask

    @property
    def task(self) -> str:
        """Name of its task: the program and the operation."""
        return f"{self.drawn.app}.{self.drawn.operation}"

    def facts(self) -> GoalFacts | None:
        """None: the packaged templates name each object exactly."""
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        """A template of `phrasings.yaml` with the names of the objects."""
        rng = Random(seed)
        template = packaged_phrasings(__package__)[self.drawn.operation].draw(heldout, rng)
        text = tidy(parse_template(template.text, self.task).expand(self.drawn.slots, rng))
        return Written(text, text, f"{self.task}/{template.id}", self.drawn.slots, "atomic-grammar-2")

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """The columns that words do not decide."""
        page = f"{self.drawn.app}.start"
        finish = PathStep(page="", operation="finish", target="")
        path = tuple(step.model_copy(update={"page": page}) for step in (*self.drawn.path, finish))
        return QueryPlan(
            platform=Platform.DESKTOP,
            apps=(self.drawn.app,),
            source=Source.ATOMIC,
            pages=(page,),
            page_descriptions=("The window that is open at the start.",),
            slots=tuple(
                Slot(name=slot, value=value, said=value, page=page) for slot, value in self.drawn.slots.items()
            ),
            path=path,
            start_state=json.dumps({"config": list(self.drawn.config)}, sort_keys=True),
            goal=json.dumps(self.drawn.goal, sort_keys=True),
            difficulty=difficulty(path, 1),
            max_steps=max(_FEWEST_STEPS, step_limit(path)),
        )


class AtomicSource(NamedTuple):
    """The packaged operations."""

    wanted: Mapping[Split, int]
    """By split, the queries of each operation; of held-out apps as many as of held-out slots."""
    programs: Collection[str]
    """Programs that may be used, from `AtomicApp`."""

    async def candidates(self, context: SourceContext) -> Offer:
        """Operations of all splits; an operation on few objects gives fewer queries than are wanted."""
        seen: set[str] = set()
        splits = [
            SplitCandidates(split, wanted, [self._candidates(operation, split, wanted, seen, context)])
            for split in Split
            for operation in all_operations()
            if (wanted := self.wanted[Split.HELDOUT_SLOTS if split is Split.HELDOUT_APPS else split])
            and self._is_used(operation, split, context)
        ]
        return Offer(tuple(splits))

    def _is_used(self, operation: Operation, split: Split, context: SourceContext) -> bool:
        app = operation(packaged_objects(), Random(0)).app
        return app in self.programs and (app in context.unseen.all) == (split is Split.HELDOUT_APPS)

    def _candidates(
        self, operation: Operation, split: Split, wanted: int, seen: set[str], context: SourceContext
    ) -> Iterator[Candidate]:
        rng = Random(int(content_id("atomic", context.seed, split, operation.__name__), 16))
        for _ in range(_DRAWS * wanted):
            goal = AtomicGoal(operation(packaged_objects(), rng))
            words, plan = rng.getrandbits(32), goal.plan({})
            key = content_id(goal.task, sorted(goal.drawn.slots.items()), plan.start_state)
            if key not in seen:
                seen.add(key)
                yield Candidate(goal, split, split is Split.HELDOUT_PHRASINGS, words)
