"""Two policies or models of a run on the same queries and seeds."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from markupsafe import escape

from tests.flows.policies.network import NetworkSpec, network_folder
from tests.flows.small_run import small_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.policies.addition import list_policies
from trajmill.flows.policies.compare import compare_policies
from trajmill.flows.report.comparison import comparison_table
from trajmill.flows.report.figures import SUCCESS, run_views
from trajmill.flows.stage import RoundContext
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


@pytest.fixture
def config(small_run: Warehouse, tmp_path: Path) -> Config:
    """A copy of the run, and a model beside it that the run has never measured."""
    root = Path(shutil.copytree(small_run.root, tmp_path / "root"))
    endpoints = {"other": NetworkSpec(model=network_folder(tmp_path / "other", seed=3))}
    return small_config(root).model_copy(update={"endpoints": endpoints})


def test_two_versions_are_compared_by_their_stored_evaluations(config: Config, tmp_path: Path) -> None:
    first, last = (list_policies(config)[place].row for place in (0, -1))
    before = read_rows(RoundContext.of(config).warehouse, Trajectory)
    compared, folder = compare_policies(config, first.model_version, last.model_version[-8:], tmp_path / "out")
    assert (compared.a, compared.b) == (first.model_version, last.model_version)
    assert len(read_rows(RoundContext.of(config).warehouse, Trajectory)) == len(before), "nothing was attempted"
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
    assert {row["side"] for row in rows} <= {"both", "gained", "lost", "neither"}
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    assert all(str(escape(row["instruction"])) in page for row in rows if row["side"] in ("gained", "lost"))
    assert pq.read_table(folder / "groups.parquet").num_rows == len(groups)
    assert comparison_table(compared).row_count >= 1 + sum(group.kind == "split" for group in compared.groups)


def test_a_model_that_is_no_version_attempts_the_same_queries_and_seeds_once(config: Config) -> None:
    warehouse, last = RoundContext.of(config).warehouse, list_policies(config)[-1].row.model_version
    with run_views(warehouse, config.run_id) as views:
        figures = views.rows(SUCCESS)
    compared, folder = compare_policies(config, last, "other")
    assert folder == warehouse.run(config.run_id) / f"compare-{last}-{compared.b}"
    rows = read_rows(warehouse, Trajectory)
    seeds = {row.query_id: row.seed for row in rows if row.purpose is Purpose.EVALUATE}
    attempted = {row.query_id: row.seed for row in rows if row.purpose is Purpose.COMPARE}
    assert attempted == seeds and len(compared.queries) == len(seeds)
    assert all(row.round == 0 and row.model_version == compared.b for row in rows if row.purpose is Purpose.COMPARE)
    again, _ = compare_policies(config, "other", last)
    assert len(read_rows(warehouse, Trajectory)) == len(rows), "it is measured once"
    assert [group.gained for group in again.groups] == [group.lost for group in compared.groups]
    with run_views(warehouse, config.run_id) as views:
        assert views.rows(SUCCESS) == figures


def test_names_that_are_no_two_policies_get_one_line(config: Config) -> None:
    last = list_policies(config)[-1].row.model_version
    for a, b, message in (
        (last, "nobody", "'nobody' is no endpoint and no measured policy of small-"),
        (last, last[-6:], f"are both {last}; name two policies"),
        ("embedded-", last, "may be embedded-.* or embedded-.*; give more of it"),
    ):
        with pytest.raises(BadInputError, match=message):
            compare_policies(config, a, b)
    empty = config.model_copy(update={"run": config.run.model_copy(update={"name": "unbegun"})})
    with pytest.raises(BadInputError, match="has no queries yet"):
        compare_policies(empty, last, "other")
