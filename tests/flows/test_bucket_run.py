"""A small run in a bucket, in a container of Azure and on Flink: the same tables as in a folder and one process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from datasets import load_dataset
from obstore.fsspec import register

from tests.bucket_server import environment_for
from tests.faulty_proxy import FAULTS, faulty_proxy
from tests.flows.runs import assert_same, changed, contents, run_stages, tiny_config
from tests.stages.environments.processes import descendants, eventually, until_gone
from trajmill.flows.evolve import evolve
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import newest_release, release_folder, verify_release
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.store.base import BucketUrl
from trajmill.warehouse.upkeep import compact, vacuum

pytestmark = pytest.mark.slow


def start(url: str, s3_endpoint: str, disk: Path) -> subprocess.Popen[bytes]:
    """A process that has an empty disk, and begins the run with two workers."""
    # Not as a script: the processes that draw would import it.
    code = (
        "from tests.flows.runs import run_stages, tiny_config; "
        f"from trajmill.warehouse.store.base import BucketUrl; run_stages(tiny_config(BucketUrl({url!r})))"
    )
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | environment_for(s3_endpoint, disk))


def test_a_killed_run_goes_on_where_only_the_bucket_is_left_and_has_the_tables_of_a_folder(
    tiny_run: Warehouse, bucket_url: str, s3_endpoint: str, tmp_path: Path
) -> None:
    # This process has nothing but the address.
    warehouse, config = create_warehouse(bucket_url), tiny_config(BucketUrl(bucket_url), workers=1)
    with faulty_proxy(s3_endpoint) as proxy:
        killed = start(bucket_url, proxy.url, tmp_path / "first-disk")
        eventually(lambda: any("-rollout/episodes-" in file.name for file in warehouse.store.files("staging")))
        assert killed.poll() is None
        helpers = descendants(killed.pid)
        assert len(helpers) >= 3, "a fork server and two workers"
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        until_gone(helpers)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", proxy.url)
            run_stages(config)
        assert set(proxy.met) == set(FAULTS), "every fault was met"
    assert_same(warehouse, tiny_run)
    count = "SELECT (SELECT count(*) FROM steps) AS steps, (SELECT count(*) FROM funnel) AS funnel"
    assert run_sql(warehouse, count).to_pylist() == run_sql(tiny_run, count).to_pylist()
    assert verify_release(warehouse, newest_release(warehouse)).files
    assert_release_loads(warehouse, tmp_path / "datasets")
    assert_upkeep_changes_no_row(warehouse)


def assert_release_loads(warehouse: Warehouse, cache: Path) -> None:
    """A trainer on another machine copies the release, or streams its rows, as `docs/storage.md` says."""
    register("s3")
    folder = str(release_folder(warehouse, newest_release(warehouse)))
    copied = load_dataset(folder, "sft", split="train", cache_dir=str(cache))
    shards = f"{warehouse.address}/shards/*/*/trl/sft.parquet"
    streamed = load_dataset("parquet", data_files=shards, split="train", streaming=True)
    sizes = {row["example_id"]: row["images"][0].size for row in streamed}
    assert len(copied) > 0 and all(sizes[row["example_id"]] == row["images"][0].size for row in copied)


def assert_upkeep_changes_no_row(warehouse: Warehouse) -> None:
    """Compact and vacuum; every row, every policy in force and the release are still there."""
    before = contents(warehouse, "steps")
    compact(warehouse)
    unused = {file.name for file in vacuum(warehouse, older_than_days=0, now=time.time() + 10)}
    versions = read_table(warehouse, "models", ["model_version"])["model_version"].to_pylist()
    assert versions and not any(name.startswith(f"models/{version}/") for version in versions for name in unused)
    assert verify_release(warehouse, newest_release(warehouse)).files
    assert contents(warehouse, "steps") == before


def test_a_round_in_azure_asks_little(azure_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = {"episodes_per_round": 16, "concurrency": 4, "store_after": 4}
    config = changed(tiny_config(BucketUrl(azure_url), workers=1), queries={"train": 8}, rollout=attempts)
    with faulty_proxy(os.environ["AZURITE_BLOB_STORAGE_URL"], without="Of-No-Request") as proxy:
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", proxy.url)
        begun = time.monotonic()
        evolve(config)
        # A renewal of the lease takes two requests every 15 seconds, so a slow machine sends more.
        assert (requests := next(proxy.numbers)) <= 600 + (time.monotonic() - begun) // 7.5, requests
    warehouse = open_warehouse(azure_url)
    assert verify_release(warehouse, newest_release(warehouse)).files


_JAR = "TRAJMILL_FLINK_JOB_SERVER_JAR"


@pytest.mark.skipif(_JAR not in os.environ, reason=f"{_JAR} has no path or address of Beam's Flink job server")
def test_a_round_on_flink_has_the_tables_of_one_process(tiny_run: Warehouse, tmp_path: Path) -> None:
    settings = BeamSettings(runner="FlinkRunner", options=(f"--flink_job_server_jar={os.environ[_JAR]}",))
    run_stages(tiny_config(tmp_path / "warehouse", settings))
    assert_same(open_warehouse(tmp_path / "warehouse"), tiny_run)
