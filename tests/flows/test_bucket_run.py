"""A small run whose warehouse is in a bucket: the same tables as in a folder, killed and gone on with or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bucket_server import environment_for
from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, contents, tiny_config
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import newest_release, verify_release
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.store.address import BucketUrl, address_of
from trajmill.warehouse.upkeep.compact import compact
from trajmill.warehouse.upkeep.vacuum import vacuum

pytestmark = pytest.mark.slow


def run_in_bucket(url: str) -> None:
    """What each of the killed processes does."""
    address = address_of(url)
    assert isinstance(address, BucketUrl)
    run_stages(tiny_config(address))


def test_a_killed_run_goes_on_where_only_the_bucket_is_left_and_has_the_tables_of_a_folder(
    tiny_run: Warehouse, bucket_url: str, s3_endpoint: str, tmp_path: Path
) -> None:
    # Not as a script: the processes that draw would import it.
    code = f"from tests.flows.test_bucket_run import run_in_bucket; run_in_bucket({bucket_url!r})"
    command = [sys.executable, "-c", code]
    for attempt in range(3):
        # Each process has an empty disk.
        environment = os.environ | environment_for(s3_endpoint, tmp_path / f"disk-{attempt}")
        process = subprocess.Popen(command, env=environment)
        try:
            # The last one is not killed.
            process.wait(timeout=None if attempt == 2 else 4.0 * (attempt + 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
    assert process.returncode == 0
    # This process, too, has nothing but the address.
    warehouse = open_warehouse(bucket_url)
    assert_same(warehouse, tiny_run)
    count = "SELECT (SELECT count(*) FROM steps) AS steps, (SELECT count(*) FROM funnel) AS funnel"
    assert run_sql(warehouse, count).to_pylist() == run_sql(tiny_run, count).to_pylist()
    assert verify_release(warehouse, newest_release(warehouse)).files
    assert_upkeep_changes_no_row(warehouse)


def assert_upkeep_changes_no_row(warehouse: Warehouse) -> None:
    """Compact and vacuum; every row, every policy in force and the release are still there."""
    before = contents(warehouse, "steps")
    compact(warehouse)
    unused = {file.name for file in vacuum(warehouse, older_than_days=0, now=time.time() + 10)}
    versions = read_table(warehouse, "models", ["model_version"])["model_version"].to_pylist()
    assert versions and not any(name.startswith(f"models/{version}/") for version in versions for name in unused)
    assert verify_release(warehouse, newest_release(warehouse)).files
    assert contents(warehouse, "steps") == before
