from __future__ import annotations

import pytest

from tests.stages.queries.samples import chosen, described
from trajmill.schemas.errors import StageError
from trajmill.stages.environments.simulated.annotations import PathMetadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.tasks.sampling import Phrasing, draw_phrasing
from trajmill.stages.queries.templates import blank, lost_slots


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
