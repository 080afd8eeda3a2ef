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
from trajmill.stages.queries.tasks.sampling import (
    OPTIONAL_CAP,
    Clause,
    Phrasing,
    divide_tasks,
    draw_goals,
    draw_phrasing,
    paths,
    sample,
)
from trajmill.stages.queries.templates import Variant, blank, explicit_instruction, lost_slots

seeds = st.integers(0, 2**32)


@settings(max_examples=30, deadline=None)
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
        assert all(choice.value in choice.slot.values for choice in drawn.choices)
        assert all(choice.value != choice.slot.default for choice in drawn.choices)


def test_every_path_and_every_number_of_optional_slots_is_drawn(order: TaskGraph, world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    drawn = [sample(order, paths(order), Random(seed)) for seed in range(100)]
    assert {len(each.choices) - 1 for each in drawn} == {0, 1, 2, 3}
    assert {sample(wish, paths(wish), Random(seed)).path for seed in range(20)} == set(paths(wish))


def test_the_key_forgets_the_path(world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    by_path = [sample(wish, [path], Random(3)) for path in paths(wish)]
    assert by_path[0].path != by_path[1].path
    assert by_path[0].key == by_path[1].key


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


def test_an_unknown_app_is_refused_with_the_nearest_name(world: World) -> None:
    with pytest.raises(BadInputError, match="there is no app 'mial'; did you mean mail"):
        divide_tasks(world, ["mial"])


def test_a_task_with_few_goals_gives_those_it_has(world: World) -> None:
    assert len(draw_goals(task_of(world, "bites.cutlery"), 50, Random(1))) == 1


@pytest.mark.parametrize("drawn", [1, 3, 4, 9, 30, 60])
def test_each_goal_goes_to_one_split(order: TaskGraph, drawn: int) -> None:
    goals = draw_goals(order, drawn, Random(2))
    shares = share_goals(goals, WANTED)
    assert sorted(goal.key for share in shares.values() for goal in share) == sorted(goal.key for goal in goals)
    for split in HELDOUT_GOALS:
        assert len(shares[split]) == min(WANTED[split], drawn // 6)


def test_heldout_goals_combine_values_that_training_shows(order: TaskGraph) -> None:
    goals = draw_goals(order, 120, Random(3))
    shares = share_goals(goals, WANTED)
    shown = {value for goal in shares[Split.TRAIN][: WANTED[Split.TRAIN]] for value in goal.key}
    for split in HELDOUT_GOALS:
        assert all(shown.issuperset(goal.key) for goal in shares[split])


def _metadata(order: TaskGraph, **values: Scalar) -> PathMetadata:
    return described(order, chosen(order, **values))


def _draws(order: TaskGraph, heldout: bool, **values: Scalar) -> list[Phrasing]:
    metadata = _metadata(order, **values)
    return [draw_phrasing(order.spec, metadata, heldout, seed) for seed in range(40)]


def test_training_phrasings_hold_nothing_held_out(order: TaskGraph) -> None:
    for phrasing in _draws(order, False, dish="Pad Thai", size="Large"):
        assert phrasing.template.text in order.spec.phrasings
        assert phrasing.clauses[0].variant.text in order.spec.clauses["size"]
        assert "/h" not in phrasing.id


def test_heldout_phrasings_use_heldout_templates_and_clauses(order: TaskGraph) -> None:
    for phrasing in _draws(order, True, dish="Pad Thai", size="Large"):
        assert phrasing.template.text in order.spec.heldout_phrasings
        assert phrasing.clauses[0].variant.text in order.spec.heldout_clauses["size"]
        assert phrasing.id.startswith("bites.order/h")
        assert " size/h" in phrasing.id


def test_an_option_is_said_by_its_whole_clause(order: TaskGraph) -> None:
    for phrasing in _draws(order, False, dish="Pad Thai", spicy=True):
        assert phrasing.said["spicy"] == phrasing.clauses[0].words


def test_what_no_template_says_is_refused(order: TaskGraph) -> None:
    spec = order.spec.model_copy(update={"phrasings": ("order {dish}",)})
    with pytest.raises(StageError, match=r"no phrasing says exactly dish, size"):
        draw_phrasing(spec, _metadata(order, dish="Pad Thai", size="Large"), False, 0)


def test_what_no_clause_says_is_refused(order: TaskGraph) -> None:
    spec = order.spec.model_copy(update={"clauses": {}})
    with pytest.raises(StageError, match=r"no clause says size = Large"):
        draw_phrasing(spec, _metadata(order, dish="Pad Thai", size="Large"), False, 0)


def test_a_template_that_names_an_optional_slot_needs_no_clause(order: TaskGraph) -> None:
    spec = order.spec.model_copy(update={"phrasings": ("order a {size} {dish}",)})
    phrasing = draw_phrasing(spec, _metadata(order, dish="Pad Thai", size="Large"), False, 0)
    assert phrasing.clauses == ()
    with pytest.raises(StageError):
        draw_phrasing(spec, _metadata(order, dish="Pad Thai"), False, 0)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Order pad thai, BIG.", ()),
        ("Order Pad Thai.", ("size",)),
        ("Order Pad Thais, bigger.", ("dish", "size")),
    ],
)
def test_slots_missing_in_the_instruction_are_named(order: TaskGraph, text: str, lost: tuple[str, ...]) -> None:
    draws = _draws(order, False, dish="Pad Thai", size="Large")
    phrasing = next(draw for draw in draws if draw.said["size"] == "big")
    assert lost_slots(text, phrasing.said) == lost


def test_blanking_replaces_whole_words_the_longest_first() -> None:
    assert blank("Two Tea Cups and two teas", ["Two", "tea", "tea cups"]) == "_ _ and _ teas"


GOLDEN_RAW: list[tuple[dict[str, Scalar], str]] = [
    (
        {"dish": "Diavola"},
        'Open the Bites app, choose Pizza, choose Diavola, tap "Go to checkout" and tap "Place order".',
    ),
    (
        {"dish": "Pad Thai", "size": "Large", "spicy": True, "quantity": 2},
        "Open the Bites app, choose Noodles, choose Pad Thai, set Size to Large, turn on Extra spicy, "
        'set Quantity to 2, tap "Go to checkout" and tap "Place order".',
    ),
    (
        {"dish": "Caesar Salad", "place": "Office", "note": "no onions"},
        'Open the Bites app, choose Salads, choose Caesar Salad, tap "Go to checkout", set Deliver to to Office, '
        'type "no onions" into Note for the kitchen and tap "Place order".',
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("values", "raw"), GOLDEN_RAW)
def test_raw_instructions_of_bites(order: TaskGraph, values: dict[str, Scalar], raw: str) -> None:
    assert explicit_instruction(described(order, chosen(order, **values))) == raw


def _refined(order: TaskGraph, template: str, *clauses: str, seed: int = 0) -> str:
    said_by = tuple(Clause(f"slot{number}", Variant("", number, False), words) for number, words in enumerate(clauses))
    phrasing = Phrasing(order.name, Variant(template, 0, False), said_by, {"dish": "Pad Thai"}, seed)
    return phrasing.expand()


@pytest.mark.parametrize(
    ("template", "clauses", "sentences"),
    [
        ("order {dish}{clauses}", [], {"Order Pad Thai."}),
        ("could you order {dish}{clauses}", [], {"Could you order Pad Thai?"}),
        ("order {dish}{clauses}", ["in size large"], {"Order Pad Thai, in size large."}),
        (
            "order {dish}{clauses}",
            ["large", "spicy", "to go"],
            {"Order Pad Thai, large, spicy and to go.", "Order Pad Thai, large, spicy, to go."},
        ),
        ("get {dish}{clauses} with Bites", ["large"], {"Get Pad Thai, large, with Bites."}),
        ("order {dish} {clauses}", ['note "ring twice"'], {'Order Pad Thai, note "ring twice".'}),
        (
            "[please] (order|get) {dish}",
            [],
            {f"{start} Pad Thai." for start in ("Please order", "Please get", "Order", "Get")},
        ),
    ],
)
def test_refined_instructions_of_bites(
    order: TaskGraph, template: str, clauses: list[str], sentences: set[str]
) -> None:
    assert {_refined(order, template, *clauses, seed=seed) for seed in range(40)} == sentences


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_no_task_loses_a_slot_in_any_phrasing(world: World, seed: int, heldout: bool) -> None:
    for task in world.tasks():
        metadata = described(task, sample(task, paths(task), Random(seed)))
        phrasing = draw_phrasing(task.spec, metadata, heldout, seed)
        raw = explicit_instruction(metadata)
        text = phrasing.expand()
        assert lost_slots(text, phrasing.said) == (), text
        for written in (raw, text):
            assert written[0] == written[0].upper() and written[-1] in ".?!"
            assert "  " not in written and " ," not in written and ",," not in written
            assert not set(written) & set("{}[]|$"), written


def test_a_carried_value_is_never_told(world: World) -> None:
    for task in world.tasks():
        for slot in (slot for slot in task.slots if slot.spec.carried_from):
            drawn = sample(task, paths(task), Random(1))
            metadata = described(task, drawn)
            raw = explicit_instruction(metadata)
            text = draw_phrasing(task.spec, metadata, False, 1).expand()
            value = str(drawn.asked[slot.spec.name])
            assert value not in text and value not in raw
