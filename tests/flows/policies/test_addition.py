"""The policy versions of a run: trained here or elsewhere, added, compared, promoted, rolled back."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from markupsafe import escape
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from tests.flows.policies.network import NetworkSpec, WaitingRun, network_folder
from tests.flows.runs import changed, first_waiting, small_config, trained_config, up_to
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.policies.commands import (
    Addition,
    add_and_evaluate,
    compare_policies,
    list_policies,
    make_untrained_policy,
    promote_policy,
    roll_back_policy,
)
from trajmill.flows.policies.policy import acting, configured_policy, policy_before
from trajmill.flows.report.comparison import comparison_table
from trajmill.flows.round import current_round, run_stage, summary_of
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.page import status_of
from trajmill.flows.tasks.release import release_name
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.tasks.train import Evaluation, adopt_configured, compared, measure, measured_queries
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.spec import EndToEndSpec, ExplorerSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.local.folder import TransformersSpec, folder_version
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.spec import ParentPolicy, Progress, TrainingReport
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


def acted(context: RoundContext) -> set[str]:
    """The versions that rolled out the training queries of a round."""
    rows = read_rows(context.warehouse, Trajectory, rounds=[context.round])
    return {row.model_version for row in rows if row.purpose is Purpose.TRAIN}


def test_another_programs_policy_is_added_compared_and_rolled_back(waiting_run: WaitingRun, tmp_path: Path) -> None:
    config, folder = waiting_run
    context = RoundContext.of(config)
    report = first_waiting(context)
    assert report is not None and "trajmill policy add" in report.waiting
    assert run_stage("train", config).waiting == report.waiting
    first = folder_version(folder)

    for wrong, message in (
        (Addition(model="no-such-folder"), "no-such-folder is not known"),
        (Addition(adapter=folder), "is no LoRA adapter"),
        (Addition(), "name either a model"),
        (Addition(model=str(folder), release="nothing"), "nothing"),
    ):
        with pytest.raises(BadInputError, match=message):
            add_and_evaluate(config, wrong)
    assert first_waiting(context) is not None, "nothing was recorded"

    new, learned = tmp_path / "trained", context.warehouse.release(release_name(context))
    EmbeddedSftSpec(min_updates=5, max_updates=10).train(ParentPolicy(folder), learned, 1, new)
    decided = add_and_evaluate(config, Addition(model=str(new)))
    second = folder_version(new)
    assert decided.result["promoted"], decided.result["reason"]
    listed = {each.row.model_version: each for each in list_policies(config)}
    assert listed[second].in_force and not listed[first].in_force
    assert (listed[second].row.parent, listed[second].row.release) == (first, release_name(context))
    assert listed[second].validation.endswith("/4")
    with pytest.raises(BadInputError, match=f"has no policy '{first[:-1]}x'; did you mean {first}"):
        promote_policy(config, first[:-1] + "x")
    roll_back_policy(config)
    assert policy_before(current_round(config)).version == first
    assert f"policy {first}, chosen since then" in "\n".join(status_of(context.in_round(1)).lines)
    with pytest.raises(BadInputError, match="has no parent"):
        roll_back_policy(config)
    assert first_waiting(context.in_round(2)) is not None
    assert acted(context.in_round(2)) == {first}
    rows = {each.row.model_version: each.row for each in list_policies(config)}
    assert [each.made for each in list_policies(config)] == [0, 1]
    assert not rows[second].promoted and rows[second].reason == f"rolled back to {first} by hand"
    with pytest.raises(BadInputError, match="has been measured in round 2 already"):
        add_and_evaluate(config, Addition(model=str(new)))
    kept = add_and_evaluate(config, Addition(model=str(folder)))
    assert kept.result["reason"] == f"{first} stays: no other policy was added"
    assert not summary_of(context.in_round(2)).trained
    promote_policy(config, second[-8:])
    with pytest.raises(BadInputError, match="is in force already"):
        promote_policy(config, second)
    assert policy_before(context.in_round(3)).version == second

    third = network_folder(tmp_path / "third", seed=5)
    between = add_and_evaluate(config, Addition(model=str(third), release=release_name(context)))
    assert between.result["promoted"], "it loses too few of four queries"
    (added,) = [each for each in list_policies(config) if each.in_force]
    assert (added.row.model_version, added.row.parent) == (folder_version(third), second)
    assert (added.row.release, added.row.round) == (release_name(context), 3)
    context.in_round(3).at(ROLLOUT).staging(context.warehouse).mkdir(parents=True)
    with pytest.raises(BadInputError, match=r"round 3 of run .* is under way with third-"):
        add_and_evaluate(config, Addition(model=str(folder)))


class AdapterRecipe(EmbeddedSftSpec):
    """A recipe that gives an adapter."""

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text("{}")
        matrices = load_file(parent.folder / "model.safetensors").items()
        name, matrix = next((name, value) for name, value in matrices if value.ndim == 2 and name.endswith(".weight"))
        place = f"base_model.model.{name.removesuffix('weight')}"
        rows, columns = matrix.shape
        factors = {f"{place}lora_A.weight": torch.zeros(2, columns), f"{place}lora_B.weight": torch.zeros(rows, 2)}
        save_file(factors, folder / "adapter_model.safetensors")
        return TrainingReport(rows=8, skipped=0, updates=1, loss=1.0, version=f"adapter-{seed}")


def test_a_version_that_cannot_act_is_refused_and_the_one_before_goes_on(waiting_run: WaitingRun) -> None:
    context = waiting_run.trained_by(AdapterRecipe())
    assert first_waiting(context) is None
    summary = summary_of(context)
    assert summary.policy_after == summary.policy_before == folder_version(waiting_run.network)
    assert summary.reason == "a model of kind 'network' takes no adapter; let [train] train whole weights"
    versions = read_rows(context.warehouse, PolicyVersion)
    assert [row.promoted for row in sorted(versions, key=lambda row: row.round)] == [True, False]
    assert policy_before(context.in_round(2)).version == folder_version(waiting_run.network)


def test_another_model_in_the_configuration_goes_on_with_the_run(waiting_run: WaitingRun, tmp_path: Path) -> None:
    config = waiting_run.config
    context = RoundContext.of(config)
    moved = config.endpoints["mine"].with_version("", network_folder(tmp_path / "two", seed=4))
    other = changed(config, endpoints={"mine": moved})
    assert other.run_id == config.run_id
    rolled_out = RoundContext(other, context.warehouse, 1)
    adopt_configured(rolled_out)
    assert policy_before(rolled_out) == policy_before(context), "a round that has begun keeps its policy"

    add_and_evaluate(config, Addition(model=str(waiting_run.network)))
    queries = read_rows(context.warehouse, Query)
    for _ in range(2):
        adopt_configured(rolled_out.in_round(2))
    up_to(ROLLOUT, rolled_out.in_round(2))
    version = folder_version(tmp_path / "two")
    assert acted(rolled_out.in_round(2)) == {version}
    assert read_rows(context.warehouse, Query) == queries
    (adopted,) = [each.row for each in list_policies(other) if each.in_force]
    assert (adopted.model_version, adopted.reason) == (version, "the configuration names it")
    assert adopted.validation is not None and len(adopted.validation) == 4


@pytest.mark.parametrize(("policy", "agent"), [("mine", EndToEndSpec), ("embedded", ExplorerSpec)])
def test_only_the_untrained_policy_explores(tmp_path: Path, policy: str, agent: type) -> None:
    weights = EmbeddedSpec(model=network_folder(tmp_path / "weights", seed=3))
    named = {"models": ModelsSection(policy=policy), "endpoints": {"mine": weights}}
    config = changed(trained_config(tmp_path / "root"), **named)
    context = RoundContext.of(config)
    mine = changed(config, models=ModelsSection(policy="mine"))
    start = configured_policy(replace(context, config=mine))
    assert (start.version, start.kind) == (weights.version, "embedded")
    assert start.paths(context.warehouse) == (weights.model, None)
    acts = acting(context, start, temperature=1.0, untrained=True)
    assert type(acts.spec) is agent
    assert acts.endpoint is not None and acts.endpoint.spec == weights


def test_it_is_made_once_where_the_endpoint_says_and_only_as_such_a_model(tmp_path: Path) -> None:
    spec = TransformersSpec(model=tmp_path / "policy", family="read-aloud")
    environment = SimulatedSpec(builtin_apps=("bites",))
    config = Config(environment=environment, models=ModelsSection(policy="tiny"), endpoints={"tiny": spec})
    made = make_untrained_policy(config)
    assert made.is_new and made.folder == tmp_path / "policy" and made.version == spec.version
    assert AutoTokenizer.from_pretrained(made.folder)("Margherita Cheeseburger")["input_ids"][0] > 100
    assert make_untrained_policy(config, blind=True) == made._replace(is_new=False)
    with pytest.raises(BadInputError, match=r"^models.policy is embedded; name an endpoint [^\n]*$"):
        make_untrained_policy(Config())


@pytest.fixture
def measured(small_copy: Warehouse, tmp_path: Path) -> Config:
    """A finished run, and a model beside it that the run has never measured."""
    other = NetworkSpec(model=network_folder(tmp_path / "other", seed=3))
    return changed(small_config(small_copy.root), endpoints={"other": other})


def test_two_versions_are_compared_by_their_stored_evaluations(measured: Config, tmp_path: Path) -> None:
    first, last = (list_policies(measured)[place].row for place in (0, -1))
    before = read_rows(RoundContext.of(measured).warehouse, Trajectory)
    compared, folder = compare_policies(measured, first.model_version, last.model_version[-8:], tmp_path / "out")
    assert (compared.a, compared.b) == (first.model_version, last.model_version)
    assert len(read_rows(RoundContext.of(measured).warehouse, Trajectory)) == len(before), "nothing was attempted"
    groups = {(group.kind, group.name): group for group in compared.groups}
    for row, passed in ((first, "first"), (last, "second")):
        for split in row.success:
            group = groups["split", split.split]
            assert (group.queries, getattr(group, passed)) == (split.queries, split.successes)
    whole = compared.groups[0]
    assert whole.queries == sum(split.queries for split in first.success if split.split != Split.TRAIN)
    assert whole.second - whole.first == whole.gained - whole.lost
    assert whole.low <= whole.difference <= whole.high and 0.0 < whole.p_value <= 1.0
    rows = pq.read_table(folder / "queries.parquet").to_pylist()
    assert len(rows) == sum(split.queries for split in first.success)
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    assert all(str(escape(row["instruction"])) in page for row in rows if row["side"] in ("gained", "lost"))
    assert pq.read_table(folder / "groups.parquet").num_rows == len(groups)
    assert comparison_table(compared).row_count >= 1 + sum(group.kind == "split" for group in compared.groups)


@pytest.mark.parametrize(("enough", "decides"), [(3, True), (2, False)])
def test_training_queries_decide_beside_few_validation_queries(
    measured: Config, enough: int, decides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajmill.flows.tasks.train._ENOUGH_VALIDATION", enough)
    row = list_policies(measured)[-1].row
    won = tuple(each.model_copy(update={"success": True}) for each in row.training or ())
    better = Evaluation(success=(), validation=row.validation or (), training=won, refused="")
    decided = compared(RoundContext.of(measured, 3), better)
    assert decided.promoted and ("training queries 2/2 against" in decided.reason) is decides


def test_a_version_whose_attempts_break_off_is_not_measured(measured: Config) -> None:
    hasty = replace(RoundContext.of(measured, 3), config=changed(measured, rollout={"max_seconds": 0.001}))
    _, broken_off = measure(hasty, StageRun(hasty.run_id, 3, "measured"), policy_before(hasty))
    assert {*broken_off.unscored} == {each.query_id for each in measured_queries(hasty)}
    row = list_policies(measured)[-1].row
    partly = broken_off.model_copy(update={"validation": row.validation, "training": (row.training or ())[1:]})
    assert "2 of 3 attempts in training queries have no score" in compared(hasty, partly).reason


def test_a_model_that_is_no_version_attempts_the_same_queries_and_seeds_once(measured: Config) -> None:
    warehouse, last = RoundContext.of(measured).warehouse, list_policies(measured)[-1].row.model_version
    compared, folder = compare_policies(measured, last, "other")
    assert folder == warehouse.run(measured.run_id) / f"compare-{last}-{compared.b}"
    rows = read_rows(warehouse, Trajectory)
    seeds = {row.query_id: row.seed for row in rows if row.purpose is Purpose.EVALUATE}
    attempted = {row.query_id: row.seed for row in rows if row.purpose is Purpose.COMPARE}
    assert attempted == seeds and len(compared.queries) == len(seeds)
    assert all(row.round == 0 and row.model_version == compared.b for row in rows if row.purpose is Purpose.COMPARE)
    again, _ = compare_policies(measured, "other", last)
    assert len(read_rows(warehouse, Trajectory)) == len(rows), "it is measured once"
    assert [group.gained for group in again.groups] == [group.lost for group in compared.groups]


def test_names_that_are_no_two_policies_get_one_line(measured: Config) -> None:
    last = list_policies(measured)[-1].row.model_version
    for a, b, message in (
        (last, "nobody", "'nobody' is no endpoint and no measured policy of small-"),
        (last, last[-6:], f"are both {last}; name two policies"),
        ("embedded-", last, "may be embedded-.* or embedded-.*; give more of it"),
    ):
        with pytest.raises(BadInputError, match=message):
            compare_policies(measured, a, b)
    empty = changed(measured, run={"name": "unbegun"})
    with pytest.raises(BadInputError, match="has no queries yet"):
        compare_policies(empty, last, "other")
    with pytest.raises(BadInputError, match="has no policy yet"):
        list_policies(empty)
