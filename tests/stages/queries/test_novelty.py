from __future__ import annotations

import pytest

from tests.stages.queries.samples import chosen, drafted
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.leaks import InstructionIndex, Novelty


@pytest.fixture
def train(order: TaskGraph, origin: Origin) -> Query:
    return drafted(chosen(order, dish="Pad Thai"), origin, 1)


@pytest.fixture
def index(train: Query) -> InstructionIndex:
    index = InstructionIndex()
    index.add(train)
    return index


def _other_dish(query: Query, dish: str) -> Query:
    (slot,) = query.slots
    text = query.instruction.replace(slot.said, dish)
    return query.model_copy(
        update={"slots": (slot.model_copy(update={"value": dish, "said": dish}),), "instruction": text}
    )


def test_a_new_query_is_not_a_duplicate(index: InstructionIndex, train: Query) -> None:
    assert index.novelty_of(_other_dish(train, "Diavola")) is Novelty.NEW


def test_the_same_goal_in_the_same_words_is_a_repetition(index: InstructionIndex, train: Query) -> None:
    assert index.novelty_of(train) is Novelty.REPEATED


def test_the_same_words_for_another_goal_are_ambiguous(index: InstructionIndex, train: Query) -> None:
    other = _other_dish(train, "Diavola").model_copy(update={"instruction": train.instruction})
    assert index.novelty_of(other) is Novelty.AMBIGUOUS


def test_trained_words_are_not_held_out_for_another_start_state(index: InstructionIndex, train: Query) -> None:
    carried = train.model_copy(update={"start_state": '{"setup": {}}', "split": Split.HELDOUT_SLOTS})
    assert index.novelty_of(carried) is Novelty.REPEATED
    assert index.novelty_of(carried.model_copy(update={"split": Split.TRAIN})) is Novelty.NEW


def test_a_trained_sentence_is_no_heldout_phrasing(index: InstructionIndex, train: Query) -> None:
    other = _other_dish(train, "Diavola").model_copy(update={"split": Split.HELDOUT_PHRASINGS})
    assert index.novelty_of(other) is Novelty.NOT_HELD_OUT
    assert index.novelty_of(other.model_copy(update={"split": Split.HELDOUT_SLOTS})) is Novelty.NEW
