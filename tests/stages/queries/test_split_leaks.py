from __future__ import annotations

import pytest

from tests.stages.queries.samples import chosen, drafted
from tests.stages.queries.splits import CLEAN, PHRASINGS, SLOTS, order_query
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.leaks import InstructionIndex, LeakKind, Novelty, leaks_in_queries


def _kinds(queries: list[Query], heldout_apps: tuple[str, ...] = ()) -> list[LeakKind]:
    return [leak.kind for leak in leaks_in_queries(queries, heldout_apps)]


def test_a_clean_set_has_no_leak() -> None:
    assert _kinds(CLEAN) == []


def test_a_goal_in_two_splits_is_found() -> None:
    planted = order_query("Get me Diavola.", "Diavola")
    (leak,) = leaks_in_queries([*CLEAN, planted], ())
    assert leak[:3] == (LeakKind.GOAL, SLOTS.query_id, planted.query_id)


def test_a_goal_in_two_heldout_splits_is_found() -> None:
    planted = order_query("I feel like eating Diavola.", "Diavola", Split.HELDOUT_PHRASINGS, "bites.order/h0")
    assert _kinds([*CLEAN, planted]) == [LeakKind.GOAL]


def test_the_words_of_a_heldout_instruction_are_found_in_training() -> None:
    planted = order_query("order  diavola", "Diavola", start_state='{"setup": {}}')
    assert _kinds([*CLEAN, planted]) == [LeakKind.INSTRUCTION]


def test_a_heldout_phrasing_in_training_is_found() -> None:
    planted = order_query("I feel like eating Pad Thai", "Pad Thai", phrasing="bites.order/h0")
    found = leaks_in_queries([PHRASINGS, planted], ())
    assert {leak.kind for leak in found} == {LeakKind.PHRASING}
    assert PHRASINGS.query_id in {leak.heldout for leak in found}


def test_a_heldout_clause_in_training_is_found() -> None:
    planted = order_query("Order Cheeseburger, the large one.", "Cheeseburger", phrasing="bites.order/0 size/h0")
    assert _kinds([*CLEAN, planted]) == [LeakKind.PHRASING]


def test_a_heldout_sentence_under_another_name_is_found() -> None:
    planted = order_query("I feel like eating Pad Thai.", "Pad Thai", phrasing="bites.order/3")
    (leak,) = leaks_in_queries([PHRASINGS, planted], ())
    assert leak[:3] == (LeakKind.PHRASING, PHRASINGS.query_id, planted.query_id)


def test_a_heldout_app_in_training_is_found() -> None:
    planted = order_query("Call Ada.", "Ada", phrasing="contacts.order/0", app="contacts")
    assert _kinds([*CLEAN, planted], ("contacts",)) == [LeakKind.APP]


def test_an_imported_page_may_say_the_same_for_another_start_state() -> None:
    pages = [
        order_query(
            "Click the button.", "", split, "miniwob", source=Source.IMPORTED, start_state=f'{{"seed": {seed}}}'
        )
        for seed, split in enumerate((Split.TRAIN, Split.HELDOUT_SLOTS))
    ]
    assert _kinds(pages) == []
    assert _kinds([pages[0], pages[0].model_copy(update={"split": Split.HELDOUT_SLOTS})]) == [LeakKind.GOAL]


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
