"""What a finished run must hold, whatever it has learned."""

import shutil
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.flows.runs import small_config
from tests.warehouse.samples import commit_rows, judgement, stage_run
from trajmill.flows.policies.commands import promote_policy
from trajmill.flows.policies.policy import endpoint_of, policy_before
from trajmill.flows.round import STAGES, do_stage, run_stage
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import RELEASE, release, release_name
from trajmill.flows.tasks.train import TRAIN, train
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.example import RLStep
from trajmill.schemas.tables.policy_version import PolicyVersion, RoundSummary
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.releases import release_names, verify_release

pytestmark = pytest.mark.slow


def test_doing_a_finished_stage_again_changes_nothing(small_run: Warehouse) -> None:
    config = small_config(small_run.root)
    before = read_table(small_run, "trajectories").num_rows
    for stage in STAGES:
        do_stage(stage, RoundContext(config, small_run, config.run.rounds))
    assert read_table(small_run, "trajectories").num_rows == before


def test_no_row_is_stored_twice_and_every_step_has_its_screens(small_run: Warehouse) -> None:
    screens = read_table(small_run, "screens", ["screen_id"])["screen_id"].to_pylist()
    assert len(set(screens)) == len(screens)
    steps = read_table(small_run, "steps", ["screen_before", "screen_after"])
    assert {name for column in steps.columns for name in column.to_pylist()} <= set(screens)
    for table, key in (("trajectories", "trajectory_id"), ("examples", "example_id"), ("queries", "query_id")):
        ids = read_table(small_run, table, [key])[key].to_pylist()
        assert len(set(ids)) == len(ids), table


def test_only_training_queries_are_learned_from(small_run: Warehouse) -> None:
    splits = {query.query_id: query.split for query in read_rows(small_run, Query)}
    assert set(splits.values()) == {Split.TRAIN, Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.VALIDATION}
    tried: dict[Purpose, set[Split]] = {}
    purposes: dict[str, Purpose] = {}
    for row in read_rows(small_run, Trajectory):
        tried.setdefault(row.purpose, set()).add(splits[row.query_id])
        purposes[row.trajectory_id] = row.purpose
    assert tried.pop(Purpose.EVALUATE) == set(splits.values())
    assert {Purpose.TRAIN, Purpose.GUIDED} <= set(tried) and set.union(*tried.values()) == {Split.TRAIN}
    for table, key in (("examples", "query_id"), ("rl_steps", "group")):
        rows = read_table(small_run, table)
        assert {splits[query_id] for query_id in rows[key].to_pylist()} == {Split.TRAIN}
        learned = {purposes[name] for name in rows["trajectory_id"].to_pylist()}
        assert Purpose.TRAIN in learned and learned <= {Purpose.TRAIN, Purpose.GUIDED}


def test_attempts_are_made_and_compared_in_groups_of_the_configured_size(small_run: Warehouse) -> None:
    size = small_config(small_run.root).rollout.group_size
    tried = [row for row in read_rows(small_run, Trajectory) if row.purpose is Purpose.TRAIN]
    made = Counter((row.round, row.query_id) for row in tried)
    assert {attempts % size for attempts in made.values()} == {0}
    assert len({row.seed for row in tried}) == len(tried)
    rows = read_rows(small_run, RLStep)
    members: dict[tuple[int, str], set[str]] = {}
    for row in rows:
        members.setdefault((row.round, row.group), set()).add(row.trajectory_id)
    assert members
    for row in rows:
        assert row.group_size == len(members[row.round, row.group]) == made[row.round, row.group]


def test_guidance_goes_to_queries_that_failed_and_never_into_prompts(small_run: Warehouse) -> None:
    guided = [row for row in read_rows(small_run, Trajectory) if row.purpose is Purpose.GUIDED]
    assert guided
    failed = {
        row.query_id for row in read_rows(small_run, Trajectory) if row.purpose is Purpose.TRAIN and row.reward == 0.0
    }
    assert {row.query_id for row in guided} <= failed
    hints = {line for text in read_table(small_run, "guidance")["text"].to_pylist() for line in text.splitlines()}
    prompts = read_table(small_run, "steps")["prompt"].to_pylist()
    assert not hints & {line for prompt in prompts for line in prompt.splitlines()}


def test_policies_descend_from_the_untrained_one_and_rounds_start_where_the_last_ended(small_run: Warehouse) -> None:
    versions = {row.model_version: row for row in read_rows(small_run, PolicyVersion)}
    (untrained,) = [row for row in versions.values() if row.parent is None]
    assert untrained.round == 0 and untrained.updates == 0
    assert all(row.parent in versions for row in versions.values() if row is not untrained)
    assert all((small_run.model(version) / "model.safetensors").exists() for version in versions)
    rounds = sorted(read_rows(small_run, RoundSummary), key=lambda row: row.round)
    assert rounds[0].policy_before == untrained.model_version
    assert all(one.policy_after == next_.policy_before for one, next_ in pairwise(rounds))


def test_flipped_weights_are_named_before_they_act_or_are_trained(small_copy: Warehouse) -> None:
    context = RoundContext(small_config(small_copy.root), small_copy, 1)
    policy = policy_before(context)
    folder = policy.paths(context.warehouse).folder
    assert folder is not None
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    shutil.rmtree(context.at(TRAIN).staging(context.warehouse))
    uses: list[Callable[[], object]] = [lambda: endpoint_of(context, policy), lambda: train(context)]
    uses.append(lambda: promote_policy(context.config, policy.version))
    for use in uses:
        with pytest.raises(BadInputError, match=r"\A[^\n]*model\.safetensors: changed since it was stored[^\n]*\Z"):
            use()


def test_evaluation_is_greedy_alike_for_all_policies_and_on_devices_unseen_in_training(small_run: Warehouse) -> None:
    measured = [row for row in read_rows(small_run, Trajectory) if row.purpose is Purpose.EVALUATE]
    by_round: dict[int, set[tuple[str, int]]] = {}
    for row in measured:
        by_round.setdefault(row.round, set()).add((row.query_id, row.seed))
    assert len(by_round) > 1 and len(set(map(frozenset, by_round.values()))) == 1
    training = {row.seed % 8 for row in read_rows(small_run, Trajectory) if row.purpose is Purpose.TRAIN}
    assert not training & {row.seed % 8 for row in measured}


def test_a_stage_whose_input_is_missing_names_the_command_to_run_first(small_run: Warehouse) -> None:
    with pytest.raises(BadInputError, match="run `trajmill rollout` first"):
        run_stage("judge", small_config(small_run.root))
    with pytest.raises(BadInputError, match="there is no stage 'jugde'"):
        run_stage("jugde", small_config(small_run.root))


def test_what_fails_its_check_stays(
    small_run: Warehouse, small_copy: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = RoundContext(small_config(small_copy.root), small_copy, 2)
    shutil.rmtree(context.at(RELEASE).staging(context.warehouse))
    shutil.rmtree(context.warehouse.release(release_name(context)))

    tried = [row.trajectory_id for row in read_rows(small_run, Trajectory)]
    with monkeypatch.context() as spoiling:
        hints = dict.fromkeys(tried, "1. never said\n<tool_call>")
        spoiling.setattr("trajmill.pipelines.release.hints_of", lambda *_: hints)
        with pytest.raises(TrajmillError, match=r"it quotes the guidance .*; nothing was released\Z"):
            release(context)
    assert release_name(context) not in release_names(context.warehouse)

    release(context)
    found, wanted = (verify_release(at, release_name(context)).files for at in (context.warehouse, small_run))
    assert [file for file in found if file.path != "README.md"] == [file for file in wanted if file.path != "README.md"]

    shutil.rmtree(context.at(RELEASE).staging(context.warehouse))
    at = stage_run("judge", 1, "another-run")
    commit_rows(context.warehouse, at, judgement("a", at, correct=True))
    release(context)
    assert verify_release(context.warehouse, release_name(context)).files == found, "sealed, then killed before the end"
    card = (context.warehouse.release(release_name(context)) / "README.md").read_text(encoding="utf-8")
    assert "| trajectory_not_accepted | " in card
