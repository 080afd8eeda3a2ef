from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.errors import BadInputError
from trajmill.stages.curate.diversity import (
    ASPECTS,
    Aspect,
    diversity_json,
    diversity_of,
    hold_to_quotas,
    narrowed,
    read_diversity,
    within_quotas,
)


def facets(**columns: Sequence[str | None]) -> pa.Table:
    count = len(next(iter(columns.values())))
    ids = {"example_id": [f"{number:03}" for number in range(count)]}
    return pa.table(ids | {aspect: pa.array(columns.get(aspect, [None] * count), pa.string()) for aspect in ASPECTS})


def test_values_are_counted_and_equally_frequent_ones_are_as_many_as_there_are() -> None:
    rows = facets(app=["mail"] * 3 + ["notes"], x=["1", "2", None, None])
    measured = {each.aspect: each for each in diversity_of(rows)}
    assert set(measured) == {"app", "x"}
    app, x = measured["app"], measured["x"]
    assert (app.rows, app.distinct_values, app.largest, app.largest_share) == (4, 2, "mail", 0.75)
    assert app.effective == pytest.approx(2 ** (0.75 * 0.415037 + 0.25 * 2), abs=1e-4)
    assert (x.rows, x.largest) == (2, "1") and x.effective == pytest.approx(2.0)
    assert read_diversity(diversity_json(tuple(measured.values()))) == tuple(measured.values())
    assert read_diversity(None) == read_diversity(b"{") == ()


aspect_values = st.lists(st.tuples(st.sampled_from("aaab"), st.sampled_from(["1", "2", "3", None])), max_size=40)


@given(aspect_values, st.floats(0.3, 1), st.floats(0.3, 1))
def test_no_value_exceeds_its_quota_and_no_row_goes(values: list[tuple[str, str | None]], app: float, x: float) -> None:
    rows = facets(app=[each[0] for each in values], x=[each[1] for each in values])
    quotas: dict[Aspect, float] = {"app": app, "x": x}
    try:
        kept = within_quotas(rows, quotas)
    except BadInputError as error:
        assert "release.quotas" in str(error) and "\n" not in str(error)
        return
    for aspect, quota in quotas.items():
        counts = Counter(value for value in kept[aspect].to_pylist() if value is not None)
        assert not counts or max(counts.values()) <= quota * counts.total()
    if all(quota == 1.0 for quota in quotas.values()):
        assert kept.equals(rows)


def test_surplus_rows_have_the_greatest_ids_and_quotas_that_cannot_be_met_are_named_in_one_line() -> None:
    rows = facets(app=["mail"] * 8 + ["notes"] * 3 + [None])
    examples = pa.table({"example_id": rows["example_id"][::-1]})
    varied = hold_to_quotas(examples, rows, {"app": 0.5})
    assert varied.examples["example_id"].to_pylist() == ["011", "010", "009", "008", "002", "001", "000"]
    assert varied.over_quota == 5 and {each.aspect: each.rows for each in varied.diversity} == {"app": 6}
    assert hold_to_quotas(examples, rows, {}).examples.equals(examples)
    what = r"release.quotas \(app = 0.1\): .* 2 values of app; raise release.quotas.app"
    with pytest.raises(BadInputError, match=what):
        within_quotas(facets(app=["mail", "notes"]), {"app": 0.1})


def test_a_release_that_narrows_is_told_from_one_that_grows() -> None:
    wide, narrow = diversity_of(facets(app=["mail", "notes", "maps"])), diversity_of(facets(app=["mail"] * 3))
    assert list(narrowed(wide, narrow)) == ["app: 3.0 -> 1.0 effective values, 100% are 'mail'"]
    assert not [*narrowed(narrow, wide), *narrowed((), narrow), *narrowed(wide, wide)]
