"""Queries for atomic operations (`source = atomic`) on objects that are drawn by chance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random

from pydantic import NonNegativeInt

from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.query import PathStep, Platform, Query, Slot, Source, Split
from trajmill.stages.queries.atomic.base import AtomicTask, Objects, Operation, packaged_objects
from trajmill.stages.queries.atomic.operations import all_operations
from trajmill.stages.queries.difficulty import difficulty, step_limit
from trajmill.stages.queries.novelty import InstructionIndex, Novelty
from trajmill.stages.queries.packaged_phrasings import Phrasings, packaged_phrasings
from trajmill.stages.queries.phrasing_template import parse_template, tidy

MADE_BY = "atomic-grammar-1"
_FEWEST_STEPS = 15
_DRAWS = 8
"""Draws for each query that is wanted."""


class AtomicCounts(Record):
    """How many queries of each operation to make."""

    train: NonNegativeInt
    heldout_slots: NonNegativeInt
    """Also the number in programs that training never sees."""
    heldout_phrasings: NonNegativeInt
    validation: NonNegativeInt = 0


def atomic_queries(
    counts: AtomicCounts, apps: Sequence[str], heldout_apps: Sequence[str], seed: int, origin: Origin
) -> tuple[Query, ...]:
    """Queries of all operations in some programs; they still have to be walked (`trajmill.stages.queries.real_walk`).

    No goal is in two splits, and training has no held-out phrasing. An operation on few objects gives fewer queries
    than are wanted.

    Args:
        counts: by operation.
        apps: programs that may be used, from `AtomicApp`.
        heldout_apps: the programs that training never sees.
        seed: decides what is drawn.
        origin: common columns of the rows.
    """
    objects, phrasings = packaged_objects(), packaged_phrasings("trajmill.stages.queries.atomic")
    index = InstructionIndex()
    goals: set[str] = set()
    made: list[Query] = []
    for split, wanted in (
        (Split.TRAIN, counts.train),
        (Split.HELDOUT_SLOTS, counts.heldout_slots),
        (Split.HELDOUT_PHRASINGS, counts.heldout_phrasings),
        (Split.HELDOUT_APPS, counts.heldout_slots),
        (Split.VALIDATION, counts.validation),
    ):
        for operation in all_operations():
            rng = Random(int(content_id("atomic", seed, split, operation.__name__), 16))
            found = 0
            for query in _candidates(operation, objects, phrasings, split, wanted, rng, origin):
                (app,) = query.apps
                usable = app in apps and (app in heldout_apps) == (split is Split.HELDOUT_APPS)
                new = query.goal_key() not in goals and index.novelty_of(query) is Novelty.NEW
                if found < wanted and usable and new:
                    index.add(query)
                    goals.add(query.goal_key())
                    made.append(query)
                    found += 1
    return tuple(made)


def _candidates(
    operation: Operation,
    objects: Objects,
    phrasings: dict[str, Phrasings],
    split: Split,
    wanted: int,
    rng: Random,
    origin: Origin,
) -> Iterator[Query]:
    for _ in range(_DRAWS * wanted):
        task = operation(objects, rng)
        template = phrasings[task.operation].draw(split is Split.HELDOUT_PHRASINGS, rng)
        name = f"{task.app}.{task.operation}"
        text = tidy(parse_template(template.text, name).expand(task.slots, rng))
        yield _query(task, name, text, f"{name}/{template.id}", split, origin)


def _query(task: AtomicTask, name: str, text: str, phrasing: str, split: Split, origin: Origin) -> Query:
    page = f"{task.app}.start"
    path = tuple(step.model_copy(update={"page": page}) for step in (*task.path, _finish()))
    slots = tuple(Slot(name=slot, value=value, said=value, page=page) for slot, value in task.slots.items())
    start_state = json.dumps({"config": list(task.config)}, sort_keys=True)
    return Query(
        query_id=Query.make_id(Platform.DESKTOP, name, slots, start_state, text),
        platform=Platform.DESKTOP,
        apps=(task.app,),
        source=Source.ATOMIC,
        task=name,
        raw_instruction=text,
        instruction=text,
        phrasing=phrasing,
        pages=(page,),
        page_descriptions=("The window that is open at the start.",),
        slots=slots,
        path=path,
        start_state=start_state,
        goal=json.dumps(task.goal, sort_keys=True),
        difficulty=difficulty(path, 1),
        max_steps=max(_FEWEST_STEPS, step_limit(path)),
        split=split,
        validation="",
        **origin.common(made_by=MADE_BY),
    )


def _finish() -> PathStep:
    return PathStep(page="", operation="finish", target="")
