import pytest

from tests.stages.derive.planning.test_planning import STEPS, plain, success
from tests.stages.derive.samples import ORIGIN, query
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Slot
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.planning.manual import filled_manual
from trajmill.stages.derive.planning.trials import MANUAL_HELPED, TriedManual, guidance_by, kept_manuals, tried_manual
from trajmill.stages.rollout.base import plan_trials


def manual() -> Example:
    (row,) = plain(success(*STEPS)).examples
    return row


def pizza(name: str, dish: str) -> Query:
    slots = (
        Slot(name="dish", value=dish, said=dish.lower(), page="bites.menu"),
        Slot(name="size", value="Large", said="big", page="bites.dish"),
    )
    return query(name).model_copy(update={"slots": slots})


def test_a_manual_is_filled_with_the_values_of_queries_of_which_the_others_come_first() -> None:
    said = filled_manual(manual().messages[-1].content, pizza("a", "Funghi"))
    assert said is not None and '2. Tap "Funghi"' in said and "{" not in said
    assert filled_manual('1. Tap "{drink}".', pizza("a", "Funghi")) is None
    row = manual()
    own, other, third = pizza(row.query_id, "Margherita"), pizza("r", "Funghi"), pizza("s", "Diavola")
    found = guidance_by(row, [own, other, third], 2, ORIGIN)
    assert [query.query_id for query, _ in found] == ["r", "s"]
    assert {guidance.source for _, guidance in found} == {"manual"}
    assert found[0][1].source_trajectory == row.trajectory_id and "Funghi" in found[0][1].text
    assert len(guidance_by(row, [own, other, third], 9, ORIGIN)) == 3


def test_both_attempts_at_a_query_have_one_seed() -> None:
    pairs = guidance_by(manual(), [pizza("r", "Funghi"), pizza("s", "Diavola")], 2, ORIGIN)
    attempts = plan_trials([*pairs, pairs[0]], 7, 1)
    assert {attempt.purpose for attempt in attempts} == {Purpose.TRIAL}
    alone = {attempt.query.query_id: attempt.seed for attempt in attempts if attempt.guidance is None}
    guided = [attempt for attempt in attempts if attempt.guidance is not None]
    assert len(alone) == 2 and len(guided) == 3
    assert all(alone[attempt.query.query_id] == attempt.seed for attempt in guided)


def test_only_queries_with_two_scores_are_compared() -> None:
    pairs = [("q", "g"), ("r", "h"), ("s", "i"), ("t", "j")]
    found = tried_manual(pairs, {"q": 0.0, "r": 1.0, "s": None}, {"g": 1.0, "h": 1.0, "i": 1.0, "j": 1.0})
    assert found == TriedManual(queries=2, without=0.5, with_manual=1.0)
    assert tried_manual(pairs, {}, {}).tells_nothing


@pytest.mark.parametrize(
    ("tried", "kept"),
    [
        (TriedManual(8, 0.25, 0.75), MANUAL_HELPED),
        (TriedManual(8, 1.0, 1.0), "unmeasured"),
        (TriedManual(0, 0.0, 0.0), "unmeasured"),
        (TriedManual(8, 0.5, 0.5), ""),
        (TriedManual(8, 0.5, 0.25), ""),
        (TriedManual(8, 0.0, 0.0), ""),
    ],
)
def test_a_manual_is_kept_if_it_raises_success(tried: TriedManual, kept: str) -> None:
    row = manual()
    rows, refused = kept_manuals([row], {row.example_id: tried}, ORIGIN)
    assert [one.variant for one in rows] == ([kept] if kept else [])
    assert [(one.reason, one.trajectory_id) for one in refused] == (
        [] if kept else [("manual_did_not_help", row.trajectory_id)]
    )
    assert all("% with, " in one.detail for one in refused)
