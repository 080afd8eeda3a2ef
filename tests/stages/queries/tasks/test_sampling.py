from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.queries.samples import chosen, described
from trajmill.schemas.errors import BadInputError, StageError
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.annotations import PathMetadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.leaks import HELDOUT_GOALS, share_goals
from trajmill.stages.queries.tasks.source import (
    OPTIONAL_CAP,
    divide_tasks,
    draw_goals,
    expand_with_clauses,
    paths,
    sample,
    word_task,
)
from trajmill.stages.queries.templates import Variant, blank, explicit_instruction, lost_slots

seeds = st.integers(0, 2**32)


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_samples_of_every_task_hold_what_they_must(world: World, seed: int) -> None:
    for task in world.tasks():
        drawn = sample(task, paths(task), Random(seed))
        assert drawn.path[0] == task.start
        assert all(task.graph.has_edge(*edge) for edge in zip(drawn.path, drawn.path[1:], strict=False))
        assert not list(task.graph.successors(drawn.path[-1]))
        asked = drawn.asked
        free = [slot for slot in task.slots if slot.is_free]
        assert {slot.spec.name for slot in free if not slot.spec.optional} <= asked.keys()
        optional = [slot for slot in free if slot.spec.optional and slot.spec.name in asked]
        assert len(optional) <= OPTIONAL_CAP
        assert all(slot.page in drawn.path for slot in optional)
        values = [(slot, asked[slot.spec.name]) for slot in free if slot.spec.name in asked]
        assert all(value in slot.values and value != slot.default for slot, value in values)


def test_every_path_and_every_number_of_optional_slots_is_drawn(order: TaskGraph, world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    drawn = [sample(order, paths(order), Random(seed)) for seed in range(100)]
    assert {len(each.asked) - 1 for each in drawn} == {0, 1, 2, 3}
    assert {sample(wish, paths(wish), Random(seed)).path for seed in range(20)} == set(paths(wish))


def test_a_slot_without_values_is_an_error_of_the_task(order: TaskGraph) -> None:
    empty = tuple(slot._replace(values=()) for slot in order.slots)
    broken = TaskGraph(order.name, order.apps, order.platform, order.spec, order.graph, order.start, empty)
    with pytest.raises(StageError, match=r"bites\.order: the slot dish has no value to ask for"):
        sample(broken, paths(broken), Random(0))


WANTED = {Split.TRAIN: 20, Split.HELDOUT_SLOTS: 5, Split.HELDOUT_PHRASINGS: 5, Split.VALIDATION: 5}


def test_every_task_that_touches_a_heldout_app_is_put_aside(world: World) -> None:
    sides = divide_tasks(world, ["wallet"])
    heldout = {task.name for task in sides.heldout}
    assert {"wallet.topup", "from_mail.redeem"} <= heldout
    assert all(any(page.startswith("wallet.") for page in task.graph) for task in sides.heldout)
    assert not any(page.startswith("wallet.") for task in sides.trained for page in task.graph)
    assert len(sides.trained) + len(sides.heldout) == len(world.tasks())
    with pytest.raises(BadInputError, match="there is no app 'mial'; did you mean mail"):
        divide_tasks(world, ["mial"])


def test_each_goal_goes_to_one_split_and_held_out_ones_combine_values_that_training_shows(order: TaskGraph) -> None:
    for drawn in (1, 4, 9, 60):
        goals = draw_goals(order, drawn, Random(2))
        shares = share_goals(goals, WANTED)
        assert sorted(goal.key for share in shares.values() for goal in share) == sorted(goal.key for goal in goals)
        for split in HELDOUT_GOALS:
            assert len(shares[split]) == min(WANTED[split], drawn // 6)
    goals = draw_goals(order, 120, Random(3))
    shares = share_goals(goals, WANTED)
    shown = {value for goal in shares[Split.TRAIN][: WANTED[Split.TRAIN]] for value in goal.key}
    for split in HELDOUT_GOALS:
        assert all(shown.issuperset(goal.key) for goal in shares[split])


def _metadata(order: TaskGraph, **values: Scalar) -> PathMetadata:
    return described(order, chosen(order, **values))


def test_training_and_heldout_phrasings_share_no_template_and_no_clause(order: TaskGraph) -> None:
    large, spicy = _metadata(order, dish="Pad Thai", size="Large"), _metadata(order, dish="Pad Thai", spicy=True)
    for seed in range(40):
        for heldout in (False, True):
            template, clause = word_task(order.spec, large, heldout, seed).phrasing.split(" ")
            assert template.startswith("bites.order/h") is clause.startswith("size/h") is heldout
        # An option is said by its whole clause.
        written = word_task(order.spec, spicy, False, seed)
        assert " " in written.said["spicy"] and written.said["spicy"] in written.text


def test_a_template_that_names_an_optional_slot_needs_no_clause(order: TaskGraph) -> None:
    spec = order.spec.model_copy(update={"phrasings": ("order a {size} {dish}",)})
    written = word_task(spec, _metadata(order, dish="Pad Thai", size="Large"), False, 0)
    assert written.phrasing == "bites.order/0"
    with pytest.raises(StageError):
        word_task(spec, _metadata(order, dish="Pad Thai"), False, 0)


def test_blanking_replaces_whole_words_the_longest_first() -> None:
    assert blank("Two Tea Cups and two teas", ["Two", "tea", "tea cups"]) == "_ _ and _ teas"


@settings(max_examples=10, deadline=None)
@given(seeds, st.booleans())
def test_no_task_loses_a_slot_in_any_phrasing(world: World, seed: int, heldout: bool) -> None:
    for task in world.tasks():
        metadata = described(task, sample(task, paths(task), Random(seed)))
        written = word_task(task.spec, metadata, heldout, seed)
        assert lost_slots(written.text, written.said) == (), written.text
        for text in (written.raw, written.text):
            assert text[0] == text[0].upper() and text[-1] in ".?!"
            assert "  " not in text and " ," not in text and ",," not in text
            assert not set(text) & set("{}[]|$"), text


def test_a_carried_value_is_never_told(world: World) -> None:
    for task in world.tasks():
        for slot in (slot for slot in task.slots if slot.spec.carried_from):
            drawn = sample(task, paths(task), Random(1))
            written = drawn.worded(False, 1)
            value = str(drawn.asked[slot.spec.name])
            assert value not in written.text and value not in written.raw


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phrasings": ("order {dish}",)}, "no phrasing says exactly dish, size"),
        ({"clauses": {}}, "no clause says size = Large"),
    ],
)
def test_what_nothing_says_is_refused(order: TaskGraph, change: dict[str, object], reason: str) -> None:
    spec = order.spec.model_copy(update=change)
    with pytest.raises(StageError, match=reason):
        word_task(spec, _metadata(order, dish="Pad Thai", size="Large"), False, 0)


def test_a_raw_instruction_names_every_page_and_value(order: TaskGraph) -> None:
    metadata = _metadata(order, dish="Pad Thai", size="Large", spicy=True, quantity=2, place="Office", note="no onions")
    assert explicit_instruction(metadata) == (
        "Open the Bites app, choose Noodles, choose Pad Thai, set Size to Large, turn on Extra spicy, "
        'set Quantity to 2, tap "Go to checkout", set Deliver to to Office, type "no onions" into Note for the kitchen '
        'and tap "Place order".'
    )


@pytest.mark.parametrize(
    ("template", "clauses", "sentences"),
    [
        ("order {dish}{clauses}", [], {"Order Pad Thai."}),
        ("could you order {dish}{clauses}", [], {"Could you order Pad Thai?"}),
        (
            "order {dish}{clauses}",
            ["large", "spicy", "to go"],
            {"Order Pad Thai, large, spicy and to go.", "Order Pad Thai, large, spicy, to go."},
        ),
        ("get {dish}{clauses} with Bites", ["large"], {"Get Pad Thai, large, with Bites."}),
    ],
)
def test_clauses_are_joined_to_a_sentence(template: str, clauses: list[str], sentences: set[str]) -> None:
    written = {
        expand_with_clauses(Variant(template, 0, False), "bites.order", {"dish": "Pad Thai"}, clauses, Random(seed))
        for seed in range(40)
    }
    assert written == sentences
