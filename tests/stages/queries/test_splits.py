from __future__ import annotations

import pytest

from tests.stages.queries.samples import CLEAN, PHRASINGS, SLOTS, chosen, drafted, order_query
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Query, Source, Split
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.base import STEP_CAP, difficulty, level_within_reach, step_limit
from trajmill.stages.queries.leaks import InstructionIndex, LeakKind, Novelty, leaks_in_queries


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        (order_query("Get me Diavola.", "Diavola"), LeakKind.GOAL),
        (
            order_query("I feel like eating Diavola.", "Diavola", Split.HELDOUT_PHRASINGS, "bites.order/h0"),
            LeakKind.GOAL,
        ),
        (order_query("order  diavola", "Diavola", start_state='{"setup": {}}'), LeakKind.INSTRUCTION),
        (
            order_query("Order Cheeseburger, large.", "Cheeseburger", phrasing="bites.order/0 size/h0"),
            LeakKind.PHRASING,
        ),
        (order_query("Call Ada.", "Ada", phrasing="contacts.order/0", app="contacts"), LeakKind.APP),
    ],
)
def test_what_is_planted_in_a_clean_set_is_found(planted: Query, kind: LeakKind) -> None:
    assert leaks_in_queries(CLEAN, ("contacts",)) == ()
    assert [leak.kind for leak in leaks_in_queries([*CLEAN, planted], ("contacts",))] == [kind]


def test_a_leak_names_the_held_out_query_and_that_which_has_its_goal_or_sentence() -> None:
    planted = order_query("Get me Diavola.", "Diavola")
    (leak,) = leaks_in_queries([*CLEAN, planted], ())
    assert leak[:3] == (LeakKind.GOAL, SLOTS.query_id, planted.query_id)
    marked = order_query("I feel like eating Pad Thai", "Pad Thai", phrasing="bites.order/h0")
    leaks = leaks_in_queries([PHRASINGS, marked], ())
    assert {leak.kind for leak in leaks} == {LeakKind.PHRASING}
    assert PHRASINGS.query_id in {leak.heldout for leak in leaks}
    renamed = order_query("I feel like eating Pad Thai.", "Pad Thai", phrasing="bites.order/3")
    (leak,) = leaks_in_queries([PHRASINGS, renamed], ())
    assert leak[:3] == (LeakKind.PHRASING, PHRASINGS.query_id, renamed.query_id)


def test_an_imported_page_may_say_the_same_for_another_start_state() -> None:
    first, second = (
        order_query(
            "Click.", "", split, "miniwob", source=Source.IMPORTED, start_state=f'{{"seed": {split == "train"}}}'
        )
        for split in (Split.TRAIN, Split.HELDOUT_SLOTS)
    )
    assert leaks_in_queries([first, second], ()) == ()
    (leak,) = leaks_in_queries([first, first.model_copy(update={"split": Split.HELDOUT_SLOTS})], ())
    assert leak.kind is LeakKind.GOAL


def test_repetitions_and_ambiguous_words_are_told_from_new_queries(order: TaskGraph, origin: Origin) -> None:
    train = drafted(chosen(order, dish="Pad Thai"), origin, 1)
    index = InstructionIndex([train])

    def novelty(query: Query, **changes: object) -> Novelty:
        return index.novelty_of(query.model_copy(update=changes))

    (slot,) = train.slots
    slots = (slot.model_copy(update={"value": "Diavola", "said": "Diavola"}),)
    text = train.instruction.replace(slot.said, "Diavola")
    other = train.model_copy(update={"slots": slots, "instruction": text})
    assert (novelty(other), novelty(train)) == (Novelty.NEW, Novelty.REPEATED)
    assert novelty(other, instruction=train.instruction) is Novelty.AMBIGUOUS
    # Trained words are not held out for another start state, and a trained sentence is no held-out phrasing.
    assert novelty(train, start_state='{"setup": {}}', split=Split.HELDOUT_SLOTS) is Novelty.REPEATED
    assert novelty(train, start_state='{"setup": {}}') is Novelty.NEW
    assert novelty(other, split=Split.HELDOUT_PHRASINGS) is Novelty.NOT_HELD_OUT
    assert novelty(other, split=Split.HELDOUT_SLOTS) is Novelty.NEW


def _path(pages: str, operation: str = "tap") -> tuple[PathStep, ...]:
    opened = PathStep(page="", operation="open", target="Bites")
    finish = PathStep(page=pages[-1], operation="finish", target="")
    return (opened, *(PathStep(page=page, operation=operation, target=f"{page}/x") for page in pages), finish)


@pytest.mark.parametrize(
    ("pages", "apps", "level"),
    [("ab", 1, 1), ("aabb", 1, 1), ("abc", 1, 2), ("abcd", 2, 2), ("abcde", 1, 3), ("ab", 3, 2), ("abcdef", 3, 3)],
)
def test_levels_follow_pages_and_apps(pages: str, apps: int, level: int) -> None:
    assert difficulty(_path(pages), apps) == level


def test_the_step_limit_counts_the_actions_of_typing_and_is_capped() -> None:
    assert (step_limit(_path("ab")), step_limit(_path("ab", "type"))) == (2 * 4 + 4, 2 * 8 + 4)
    assert step_limit(_path("abcdefghijklmnopqrstuvwxyz")) == STEP_CAP


@pytest.mark.parametrize(
    ("success", "level"),
    [({}, 1), ({1: 0.6, 2: 0.9}, 1), ({1: 0.7}, 2), ({1: 0.9, 2: 0.8}, 3), ({1: 1.0, 2: 1.0, 3: 1.0}, 3)],
)
def test_the_next_level_is_asked_for_where_the_easier_ones_succeed(success: dict[int, float], level: int) -> None:
    assert level_within_reach(success, enough=0.7) == level
