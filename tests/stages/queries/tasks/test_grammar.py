from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.queries.samples import chosen, described
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.tasks.sampling import Clause, Phrasing, draw_phrasing, paths, sample
from trajmill.stages.queries.templates import Variant, explicit_instruction, lost_slots

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
