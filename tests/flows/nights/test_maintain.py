from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.flows.synthetic_run import write_run
from tests.warehouse.test_releases import export, release
from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.log import Ending
from trajmill.flows.nights.maintain import keep_small
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.releases import release_names

pytestmark = pytest.mark.slow


def test_maintenance_says_what_it_did_and_keeps_what_is_used(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}, "retention": {"unused_days": 0}})
    warehouse = create_warehouse(tmp_path)
    write_run(warehouse)
    left_over = warehouse.table("steps") / "killed.parquet"
    left_over.write_bytes(b"half a shard")
    done = keep_small(config)
    assert done.ending is Ending.MAINTAINED
    assert re.match(
        r"0 releases dropped, 0 tables compacted, 1 unused files deleted \(0.0 MB\), 0 releases checked", done.line
    )
    assert not left_over.exists()
    assert keep_small(config).line.startswith("0 releases dropped, 0 tables compacted, 0 unused files deleted")


def test_old_releases_of_the_run_alone_are_dropped_when_nobody_works_on_it(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}, "retention": {"releases": 1}})
    warehouse, ours = create_warehouse(tmp_path), config.run_id
    for run in (ours, "run-b"):
        for number in (1, 2):
            export(warehouse, f"{run}-r{number}")
            release(warehouse, f"{run}-r{number}", round=number, run_id=run)
    with sole_worker(warehouse, ours):
        line = keep_small(config).line
        assert line.startswith(f"0 releases dropped (not of {ours}, which another process works on), ")
        assert len(release_names(warehouse)) == 4
    assert keep_small(config).line.startswith("1 releases dropped, ")
    assert release_names(warehouse) == [f"{ours}-r2", "run-b-r1", "run-b-r2"]
