"""A whole round on Flink: Beam's job server, with a cluster in it, of which the jar must be at hand."""

import os
from pathlib import Path

import pytest

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.warehouse.layout import Warehouse, open_warehouse

_JAR = "TRAJMILL_FLINK_JOB_SERVER_JAR"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_JAR not in os.environ, reason=f"{_JAR} has no path or address of Beam's Flink job server"),
]


def test_a_round_on_flink_has_the_tables_of_one_process(tiny_run: Warehouse, tmp_path: Path) -> None:
    settings = BeamSettings(runner="FlinkRunner", options=(f"--flink_job_server_jar={os.environ[_JAR]}",))
    run_stages(tiny_config(tmp_path / "warehouse", settings))
    assert_same(open_warehouse(tmp_path / "warehouse"), tiny_run)
