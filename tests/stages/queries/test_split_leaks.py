from __future__ import annotations

from tests.stages.queries.splits import CLEAN, PHRASINGS, SLOTS, order_query
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.leaks import LeakKind, leaks_in_queries


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
