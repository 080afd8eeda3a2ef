from collections.abc import Mapping, Sequence

import pytest

from tests.stages.derive.rl_rows import EpisodeBatch, attempt_of, rl_rows_of
from tests.stages.derive.samples import DONE, TAP, episode, failure, query, size_of, step, success
from trajmill.schemas.dialects.families import ANY, FAMILIES
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import RLStep
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.derive.rl_plan import RewardMoments, moments, replayable, reward_of
from trajmill.stages.derive.rl_steps import PolicyWords, RLRows, compares_members
from trajmill.stages.derive.spec import RLSpec

A, B = query("a"), query("b")
GROUP = RLSpec()
BATCH = RLSpec(normalise="batch")


def derive(
    episodes: Sequence[Episode],
    spec: RLSpec = GROUP,
    remembered: Mapping[str, Episode] | None = None,
    earlier: Sequence[RewardMoments] = (),
    seed: int = 0,
    may_be_judged: Sequence[str] = (),
) -> RLRows:
    return rl_rows_of(EpisodeBatch(episodes, remembered or {}, earlier, may_be_judged), spec, seed=seed)


def advantages(made: RLRows) -> dict[str, float]:
    found: dict[str, set[float]] = {}
    for row in made.rows:
        found.setdefault(row.trajectory_id, set()).add(row.advantage)
    assert all(len(values) == 1 for values in found.values())
    return {trajectory_id: values.pop() for trajectory_id, values in found.items()}


def id_of(one: Episode) -> str:
    return one.trajectory.trajectory_id


def changed(one: Episode, **values: object) -> Episode:
    """The episode with other values of its trajectory."""
    return one.model_copy(update={"trajectory": one.trajectory.model_copy(update=values)})


def test_rewards_are_compared_within_their_group_or_over_the_batch() -> None:
    easy = [success(2, "s1", A), success(2, "s2", A), success(2, "s3", A), failure(4, "f1", A)]
    hard = [success(2, "s4", B), failure(3, "f2", B), failure(3, "f3", B), failure(3, "f4", B)]
    made = advantages(derive([*easy, *hard]))
    # a: mean 3/4, deviation sqrt(3)/4; b: mean 1/4, the same deviation.
    wanted = [*[0.57735] * 3, -1.73205, 1.73205, *[-0.57735] * 3]
    assert [made[id_of(one)] for one in (*easy, *hard)] == pytest.approx(wanted, abs=1e-5)
    batch = [success(2, "s1", A), failure(2, "f1", A), success(2, "s2", B), success(2, "s3", B)]
    made = advantages(derive(batch, BATCH.model_copy(update={"keep_without_spread": True})))
    # Mean 3/4, deviation sqrt(3)/4, for both groups alike.
    assert [made[id_of(one)] for one in batch] == pytest.approx([0.57735, -1.73205, 0.57735, 0.57735], abs=1e-5)
    later = advantages(derive(batch[:2], BATCH, earlier=[moments([0.0, 0.0])]))
    # Half of the earlier mean 0 and half of 1/2: 1/4, deviation sqrt(1/4 - 1/16) = 0.43301.
    assert [later[id_of(one)] for one in batch[:2]] == pytest.approx([1.73205, -0.57735], abs=1e-5)


def test_steps_share_the_weight_of_their_trajectory_and_attempts_of_two_policies_are_two_groups() -> None:
    made = derive([success(2, "s", A), failure(4, "f", A)])
    weights = sorted((row.accuracy_reward, row.step_index, row.step_weight) for row in made.rows)
    assert weights == [*((0.0, index, 0.25) for index in range(4)), *((1.0, index, 0.5) for index in range(2))]
    constant = derive([success(2, "s", A), failure(4, "f", A)], RLSpec(step_weight="constant"))
    assert {row.step_weight for row in constant.rows} == {1.0}
    other = changed(failure(2, "f", A), model_version="m1")
    made = derive([success(2, "s", A), other], RLSpec(keep_without_spread=True))
    alone = {("m0", 1, 0.0), ("m1", 1, 0.0)}
    assert {(row.policy_version, row.group_size, row.advantage) for row in made.rows} == alone


def test_a_group_that_failed_whole_gets_one_remembered_success_which_enters_no_running_mean() -> None:
    attempts = [failure(3, f"f{i}", A) for i in range(4)]
    memory = success(2, "old", A)
    fresh = [attempt_of(one) for one in (*attempts, success(2, "b", B), failure(2, "c", B))]
    assert replayable(fresh) == ("a",)
    made = derive(attempts, remembered={"a": memory})
    assert {row.trajectory_id for row in made.rows if row.replayed} == {id_of(memory)}
    assert {row.group_size for row in made.rows} == {4}
    assert [d.reason for d in made.dropped] == ["replaced_by_success"]
    assert sorted(advantages(made).values()) == pytest.approx([-0.57735] * 3 + [1.73205], abs=1e-5)
    attempts = [failure(2, "f1", A), failure(2, "f2", A), success(2, "s", B), failure(2, "f3", B)]
    made = derive(attempts, BATCH, {"a": success(2, "old", A)})
    # The four fresh rewards: mean 1/4, deviation sqrt(3)/4.
    found = {(row.replayed, round(row.advantage, 4)) for row in made.rows if row.group == "a"}
    assert found == {(True, 1.732), (False, -0.5773)}


def test_a_success_of_the_same_query_without_guidance_replaces_a_failure_by_the_seed() -> None:
    attempts = [failure(2, "f", A), failure(2, "g", A)]
    memory = {"a": changed(success(2, "old", A), purpose=Purpose.GUIDED, guidance_id="hints")}
    assert derive(attempts, remembered=memory).rows == ()
    assert derive(attempts, RLSpec(replay=False), {"a": success(2, "old", A)}).rows == ()
    attempts, memory = [failure(2, f"f{i}", A) for i in range(8)], {"a": success(2, "old", A)}
    replaced = [derive(attempts, remembered=memory, seed=seed).dropped for seed in range(12)]
    assert len(set(replaced)) > 1
    assert replaced == [derive(attempts, remembered=memory, seed=seed).dropped for seed in range(12)]
    for other in (success(2, "old", B), failure(2, "old", A)):
        assert derive([failure(2, "f1", A), failure(2, "f2", A)], remembered={"a": other}).rows == ()
    assert replayable([attempt_of(failure(2, "f", A))]) == ()


def test_attempts_that_say_nothing_about_the_policy_give_no_rows() -> None:
    steps = [step(0, TAP), step(1, DONE)]
    void = [
        episode(steps, name="1", asked=A, status="failed", correct=False),
        episode(steps, name="2", asked=A, correct=None),
        episode(steps, name="3", asked=A, purpose=Purpose.GUIDED),
        episode(steps, name="4", asked=A, purpose=Purpose.EVALUATE),
        episode(steps, name="5", asked=query("h", split=Split.HELDOUT_SLOTS)),
        episode([], name="6", asked=A, correct=False),
        changed(episode(steps, name="7", asked=A, correct=False), stop_reason=StopReason.TIME_LIMIT),
    ]
    made = derive([*void, success(2, "s", A), failure(2, "f", A)])
    assert len({row.trajectory_id for row in made.rows}) == 2
    reasons = sorted(d.reason for d in made.dropped)
    assert reasons == ["failed", "held_out", "no_steps", "not_judged", "other_purpose", "other_purpose", "time_limit"]


def test_groups_without_spread_are_dropped_or_kept_and_groups_of_one_are_no_rl_data() -> None:
    batch = [failure(2, "f1", A), failure(3, "f2", A), success(2, "s1", B), success(3, "s2", B)]
    for spec in (GROUP, BATCH):
        dropped = derive(batch, spec)
        assert dropped.rows == ()
        assert [d.reason for d in dropped.dropped] == ["no_spread"] * 4
    assert set(advantages(derive(batch, RLSpec(keep_without_spread=True))).values()) == {0.0}
    over_batch = advantages(derive(batch, RLSpec(normalise="batch", keep_without_spread=True)))
    assert sorted(over_batch.values()) == pytest.approx([-1.0, -1.0, 1.0, 1.0], abs=1e-5)
    assert derive([]) == ((), ())
    one_each = derive([success(2, "s", A), failure(2, "f", B)], RLSpec(normalise="batch", keep_without_spread=True))
    assert len(one_each.rows) == 4
    compared = [one_each, derive([success(2, "s", A), failure(2, "f", A)]), derive([])]
    assert [compares_members(rows_to_arrow("rl_steps", made.rows)) for made in compared] == [False, True, False]


def test_a_group_waits_for_a_judgement_that_is_still_to_come() -> None:
    unjudged = episode([step(0, TAP), step(1, DONE)], name="u", asked=A, correct=None)
    batch = [success(2, "s", A), failure(2, "f", A), unjudged]
    waiting = derive(batch, may_be_judged=[id_of(unjudged)])
    assert waiting.rows == ()
    assert sorted(d.reason for d in waiting.dropped) == ["group_waits_for_judgement"] * 2 + ["not_judged"]
    given_up = derive(batch)
    assert {row.group_size for row in given_up.rows} == {2}
    judged = failure(2, "u", A)
    assert {row.group_size for row in derive([*batch[:2], judged]).rows} == {3}


def test_attempts_of_a_version_that_lies_too_far_behind_give_no_rows() -> None:
    old = [changed(one, model_version="v1") for one in (success(2, "s", A), failure(2, "f", A))]
    new = [changed(one, model_version="v3") for one in (success(2, "t", A), failure(2, "g", A))]
    remembered = {"a": changed(success(2, "old", A), model_version="v1")}
    made = rl_rows_of(EpisodeBatch([*old, *new], remembered, stale={"v1"}), GROUP)
    assert {row.policy_version for row in made.rows} == {"v3"}
    assert {(d.trajectory_id, d.reason) for d in made.dropped} == {(id_of(one), "stale_policy") for one in old}
    failed = [changed(failure(2, name, A), model_version="v3") for name in "gh"]
    replayed = rl_rows_of(EpisodeBatch(failed, remembered, stale={"v1"}), GROUP)
    assert {row.policy_version for row in replayed.rows if row.replayed} == {"v1"}, "replay is meant to be older"


def test_a_served_policys_rows_have_its_tokens_or_are_dropped() -> None:
    spoken = {"reply_token_ids": (5, 7), "reply_logprobs": (-0.5, -0.25)}
    won, lost = success(2, "s", A), failure(2, "f", A)
    won = won.model_copy(update={"steps": tuple(each.model_copy(update=spoken) for each in won.steps)})
    batch = EpisodeBatch([won, lost])
    made = rl_rows_of(batch, GROUP, PolicyWords(ANY, size_of, with_tokens=True))
    assert {(r.trajectory_id, r.response_token_ids, r.old_logprobs) for r in made.rows} == {
        (id_of(won), (5, 7), (-0.5, -0.25))
    }
    assert [d.reason for d in made.dropped] == ["no_log_probabilities"] * 2
    cut = {"reply_logprobs": (-0.5,)}
    short = won.model_copy(update={"steps": tuple(each.model_copy(update=cut) for each in won.steps)})
    refused = rl_rows_of(EpisodeBatch([short, lost]), GROUP, PolicyWords(ANY, size_of, with_tokens=True))
    assert {d.reason for d in refused.dropped} == {"log_probabilities_of_another_length", "no_log_probabilities"}
    assert not refused.rows
    assert rows_from_arrow(RLStep, rows_to_arrow("rl_steps", made.rows)) == list(made.rows)
    unasked = rl_rows_of(batch, GROUP)
    assert {row.old_logprobs for row in unasked.rows if row.trajectory_id == id_of(lost)} == {None}


def test_the_prompt_is_that_of_the_policys_family() -> None:
    batch = EpisodeBatch([success(3, "s", A), failure(3, "f", A)])
    for name, screens in (("qwen3-vl", 1), ("gui-owl-1.5", 3)):
        family = FAMILIES[name]
        rows = rl_rows_of(batch, GROUP, PolicyWords(family, size_of)).rows
        last = max(rows, key=lambda row: (row.accuracy_reward, row.step_index))
        assert len(last.screens) == screens == sum(message.content.count("<image>") for message in last.prompt)
        assert last.prompt[0].content == family.mobile.system_prompt(family.frame(size_of("s2")))
        assert last.response == step(2, DONE).raw_response


def test_rewards_have_two_parts() -> None:
    assert reward_of(True, 0, 4) == (1.0, 0.0)
    assert reward_of(False, 1, 2).total == pytest.approx(-0.25)


PARENT = failure(5, "p", A)


def branch(one: Episode) -> Episode:
    return changed(one, purpose=Purpose.BRANCH, parent_id=id_of(PARENT), branched_at=2)


def test_branches_give_the_steps_around_their_screen_advantages_of_their_own() -> None:
    sibling, other = failure(3, "f", A), success(4, "s", B)
    won, lost = [branch(success(4, "b1", A))], [branch(failure(length, f"l{length}", A)) for length in (4, 5, 6)]
    made = derive([PARENT, sibling, other, failure(2, "o", B), *won, *lost])
    rows = {(row.trajectory_id, row.step_index): row.advantage for row in made.rows}
    # Rewards 1, 0, 0, 0 from the screen: V = 1/4, S = sqrt(3)/4, and V_0 = 0.
    for one in (*won, *lost):
        assert sorted(index for name, index in rows if name == id_of(one)) == list(range(2, len(one.steps)))
        weights = [row.step_weight for row in made.rows if row.trajectory_id == id_of(one)]
        assert sum(weights) == pytest.approx(1.0)
    assert [rows[id_of(won[0]), index] for index in (2, 3)] == pytest.approx([1.73205] * 2, abs=1e-5)
    assert rows[id_of(lost[0]), 3] == pytest.approx(-0.57735, abs=1e-5)
    assert [rows[id_of(PARENT), index] for index in range(5)] == pytest.approx([0.57735] * 2 + [-0.57735] * 3, abs=1e-5)
    assert {row.branch for row in made.rows if row.group == "a"} == {f"{id_of(PARENT)}@2"}
    assert {row.group_size for row in made.rows if row.group == "a"} == {4}
    assert {round(row.advantage, 4) for row in made.rows if row.group == "b"} == {1.0, -1.0}
    assert {row.branch for row in made.rows if row.group == "b"} == {None}
    assert [(left.trajectory_id, left.reason) for left in made.dropped] == [(id_of(sibling), "no_spread")]


def test_branches_that_all_failed_change_nothing() -> None:
    won, branches = success(3, "s", A), [branch(failure(4, name, A)) for name in ("b0", "b1")]
    made, alone = derive([PARENT, won, *branches]), derive([PARENT, won])
    assert made.rows == alone.rows
    assert [left.reason for left in made.dropped] == ["no_spread"] * 2
    lonely = derive(branches)
    assert [left.reason for left in lonely.dropped] == ["no_parent"] * 2 and lonely.rows == ()
