from collections import Counter

import pytest

from tests.stages.curate.test_training_set import examples_of, table
from trajmill.stages.curate.training_set import NEGATIVE, POSITIVE, retained_reflections, with_equal_reflections


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        ("++++", {0, 1, 2, 3}),
        ("+-++", {1}),
        ("+--+", {2}),
        ("++-", set()),
        ("-+-+", {0, 2}),
        ("---", set()),
        ("", set()),
    ],
)
def test_the_papers_two_rules(marks: str, kept: set[int]) -> None:
    """A repaired failure teaches; a success only in a trajectory without a failure."""
    assert retained_reflections({index: mark == "+" for index, mark in enumerate(marks)}) == kept


def test_both_sides_are_made_equally_many_and_other_roles_stay() -> None:
    made = [example for number in range(4) for example in examples_of(3, f"t{number}", "q")]
    variants = [POSITIVE] * 7 + [NEGATIVE] * 3 + ["manager"] * 2
    rows = [row.model_copy(update={"variant": variant}) for row, variant in zip(made, variants, strict=True)]
    balanced = with_equal_reflections(table(*rows))
    assert Counter(balanced["variant"].to_pylist()) == {POSITIVE: 3, NEGATIVE: 3, "manager": 2}
    again = with_equal_reflections(table(*rows[::-1]))
    assert set(again["example_id"].to_pylist()) == set(balanced["example_id"].to_pylist())
    assert with_equal_reflections(table(*rows[:7], rows[-1]))["variant"].to_pylist() == ["manager"]
    assert with_equal_reflections(table(*made[:2])).num_rows == 2, "rows of other kinds have no variant"
