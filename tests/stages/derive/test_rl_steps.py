from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.stages.derive.samples import DONE, ORIGIN, TAP, episode, failure, frame_of, query, step, success
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.rl_steps import RLRows, failed_groups, rl_steps, stored_rewards

A, B = query("a"), query("b")


def derive(
    episodes: Sequence[Episode],
    remembered: Mapping[str, Episode] | None = None,
    earlier: Sequence[Sequence[float]] = (),
    seed: int = 0,
) -> RLRows:
    return rl_steps(episodes, remembered or {}, earlier, frame_of, seed, ORIGIN)


def test_one_advantage_per_trajectory_spread_on_all_its_steps() -> None:
    made = derive([success(2, "s", A), failure(4, "f", A)])
    won = [row for row in made.rows if row.accuracy_reward == 1.0]
    lost = [row for row in made.rows if row.accuracy_reward == 0.0]
    assert ([r.step_index for r in won], [r.step_index for r in lost]) == ([0, 1], [0, 1, 2, 3])
    assert [r.advantage for r in won] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert [r.advantage for r in lost] == pytest.approx([-1.0] * 4, abs=1e-5)
    for rows in (won, lost):
        assert sum(row.step_weight for row in rows) == pytest.approx(1.0)
    assert not any(row.replayed for row in made.rows)
    assert rows_from_arrow("rl_steps", rows_to_arrow("rl_steps", made.rows)) == list(made.rows)


def test_the_response_is_what_the_policy_said_malformed_or_not() -> None:
    steps = [step(0, TAP), step(1, None)]
    made = derive([episode(steps, name="f", asked=A, correct=False), success(2, "s", A)])
    lost = [row for row in made.rows if row.accuracy_reward == 0.0]
    assert [row.response for row in lost] == [s.raw_response for s in steps]
    assert {row.format_reward for row in lost} == {-0.25}
    assert {row.reward for row in lost} == {-0.25}


def test_a_group_that_failed_whole_gets_one_remembered_success_of_its_query() -> None:
    attempts = [failure(3, f"f{i}", A) for i in range(4)]
    memory = success(2, "old", A)
    assert failed_groups([*attempts, success(2, "b", B)]) == ("a",)
    made = derive(attempts, {"a": memory})
    replayed = {row.trajectory_id for row in made.rows if row.replayed}
    assert replayed == {memory.trajectory.trajectory_id}
    assert len({row.trajectory_id for row in made.rows}) == 4
    assert [d.reason for d in made.dropped] == ["replaced_by_success"]
    assert all(row.advantage > 0 for row in made.rows if row.replayed)
    assert all(row.advantage < 0 for row in made.rows if not row.replayed)


def test_which_failure_is_replaced_is_drawn_by_the_seed() -> None:
    attempts, memory = [failure(2, f"f{i}", A) for i in range(8)], {"a": success(2, "old", A)}
    replaced = [derive(attempts, memory, seed=seed).dropped for seed in range(12)]
    assert len(set(replaced)) > 1
    assert replaced == [derive(attempts, memory, seed=seed).dropped for seed in range(12)]


def test_a_group_with_a_success_is_left_alone() -> None:
    made = derive([success(2, "s", A), failure(2, "f", A)], {"a": success(2, "old", A)})
    assert not any(row.replayed for row in made.rows)


def test_only_a_success_of_the_same_query_is_replayed() -> None:
    for memory in (success(2, "old", B), failure(2, "old", A)):
        made = derive([failure(2, "f", A), success(2, "s", B)], {"a": memory})
        assert not any(row.replayed for row in made.rows)


def test_what_is_no_evidence_about_the_policy_never_enters() -> None:
    steps = [step(0, TAP), step(1, DONE)]
    void = [
        episode(steps, name="1", asked=A, status="failed", correct=False),
        episode(steps, name="2", asked=A, correct=None),
        episode(steps, name="3", asked=A, purpose=Purpose.GUIDED),
        episode(steps, name="4", asked=A, purpose=Purpose.EVALUATE),
        episode(steps, name="5", asked=query("h", split=Split.HELDOUT_SLOTS)),
        episode([], name="6", asked=A, correct=False),
    ]
    made = derive([*void, success(2, "s", A), failure(2, "f", A)])
    assert len({row.trajectory_id for row in made.rows}) == 2
    reasons = sorted(d.reason for d in made.dropped)
    assert reasons == ["failed", "held_out", "no_steps", "not_judged", "other_purpose", "other_purpose"]


def test_a_batch_without_a_difference_gives_no_rows() -> None:
    made = derive([failure(2, "f1", A), failure(3, "f2", B)])
    assert made.rows == ()
    assert {d.reason for d in made.dropped} == {"no_advantage"}
    assert derive([]) == ((), ())


def test_the_normalisation_remembers_earlier_rounds() -> None:
    first = derive([success(2, "s", A), failure(2, "f", A)])
    stored = stored_rewards(rows_to_arrow("rl_steps", first.rows))
    assert stored == [[1.0, 0.0]] or stored == [[0.0, 1.0]]
    later = derive([failure(2, "g", A), failure(3, "h", B)], earlier=stored)
    # mean 0.25, mean square 0.25: a failure lies 0.25 below the mean, in units of sqrt(0.25 - 0.0625).
    assert {round(row.advantage, 4) for row in later.rows} == {-0.5773}


def test_the_rows_do_not_depend_on_the_order_of_the_episodes() -> None:
    episodes = [success(2, "s", A), failure(2, "f", A), failure(2, "g", B), success(3, "t", B)]
    assert derive(episodes) == derive(episodes[::-1])


def test_a_trajectory_replayed_in_two_rounds_gives_rows_with_ids_of_their_own() -> None:
    memory = {"a": success(2, "old", A)}
    ids = [
        {
            row.rl_step_id
            for row in rl_steps([failure(2, "f", A), failure(2, "g", A)], memory, [], frame_of, 0, origin).rows
        }
        for origin in (ORIGIN, Origin(round=2, run_id="run", code_version="test"))
    ]
    assert not ids[0] & ids[1]
