from __future__ import annotations

import pytest

from tests.stages.queries.samples import chosen, drafted
from tests.stages.queries.splits import CLEAN, PHRASINGS, SLOTS, order_query
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.leaks import InstructionIndex, LeakKind, Novelty, leaks_in_queries


@pytest.mark.parametrize(
    ("planted", "kinds"),
    [
        ([], []),
        ([order_query("Get me Diavola.", "Diavola")], [LeakKind.GOAL]),
        (
            [order_query("I feel like eating Diavola.", "Diavola", Split.HELDOUT_PHRASINGS, "bites.order/h0")],
            [LeakKind.GOAL],
        ),
        ([order_query("order  diavola", "Diavola", start_state='{"setup": {}}')], [LeakKind.INSTRUCTION]),
        (
            [order_query("Order Cheeseburger, the large one.", "Cheeseburger", phrasing="bites.order/0 size/h0")],
            [LeakKind.PHRASING],
        ),
        ([order_query("Call Ada.", "Ada", phrasing="contacts.order/0", app="contacts")], [LeakKind.APP]),
    ],
)
def test_what_is_planted_in_a_clean_set_is_found(planted: list[Query], kinds: list[LeakKind]) -> None:
    leaks = leaks_in_queries([*CLEAN, *planted], ("contacts",))
    assert [leak.kind for leak in leaks] == kinds


def test_a_leak_names_the_held_out_query_and_that_which_has_its_goal() -> None:
    planted = order_query("Get me Diavola.", "Diavola")
    (leak,) = leaks_in_queries([*CLEAN, planted], ())
    assert leak[:3] == (LeakKind.GOAL, SLOTS.query_id, planted.query_id)


def test_a_heldout_phrasing_or_its_sentence_in_training_is_found() -> None:
    marked = order_query("I feel like eating Pad Thai", "Pad Thai", phrasing="bites.order/h0")
    leaks = leaks_in_queries([PHRASINGS, marked], ())
    assert {leak.kind for leak in leaks} == {LeakKind.PHRASING}
    assert PHRASINGS.query_id in {leak.heldout for leak in leaks}
    renamed = order_query("I feel like eating Pad Thai.", "Pad Thai", phrasing="bites.order/3")
    (leak,) = leaks_in_queries([PHRASINGS, renamed], ())
    assert leak[:3] == (LeakKind.PHRASING, PHRASINGS.query_id, renamed.query_id)


def test_an_imported_page_may_say_the_same_for_another_start_state() -> None:
    pages = [
        order_query(
            "Click the button.", "", split, "miniwob", source=Source.IMPORTED, start_state=f'{{"seed": {seed}}}'
        )
        for seed, split in enumerate((Split.TRAIN, Split.HELDOUT_SLOTS))
    ]
    assert leaks_in_queries(pages, ()) == ()
    (leak,) = leaks_in_queries([pages[0], pages[0].model_copy(update={"split": Split.HELDOUT_SLOTS})], ())
    assert leak.kind is LeakKind.GOAL


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


def test_repetitions_and_ambiguous_words_are_told_from_new_queries(index: InstructionIndex, train: Query) -> None:
    other = _other_dish(train, "Diavola")
    assert index.novelty_of(other) is Novelty.NEW
    assert index.novelty_of(train) is Novelty.REPEATED
    assert index.novelty_of(other.model_copy(update={"instruction": train.instruction})) is Novelty.AMBIGUOUS


def test_trained_words_are_not_held_out_for_another_start_state(index: InstructionIndex, train: Query) -> None:
    carried = train.model_copy(update={"start_state": '{"setup": {}}', "split": Split.HELDOUT_SLOTS})
    assert index.novelty_of(carried) is Novelty.REPEATED
    assert index.novelty_of(carried.model_copy(update={"split": Split.TRAIN})) is Novelty.NEW


def test_a_trained_sentence_is_no_heldout_phrasing(index: InstructionIndex, train: Query) -> None:
    other = _other_dish(train, "Diavola").model_copy(update={"split": Split.HELDOUT_PHRASINGS})
    assert index.novelty_of(other) is Novelty.NOT_HELD_OUT
    assert index.novelty_of(other.model_copy(update={"split": Split.HELDOUT_SLOTS})) is Novelty.NEW
