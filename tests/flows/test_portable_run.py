"""A round through Beam's portable path: a job service and worker pools that have only an S3 server in common.

Each of them is in a network namespace of its own where such can be made, which takes root, and else on loopback.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from tests.pipelines.executors.machines import Cluster, Machine
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow

STARTED_AGAIN = "it is started again"
"""What is told of a job whose machines were lost."""


@pytest.fixture(scope="module")
def s3_endpoint(machines: Cluster) -> str:
    return machines.s3_endpoint


@contextmanager
def cut_off_in_the_middle(
    pools: Sequence[Machine], warehouse: Warehouse, told: Callable[[str], bool]
) -> Iterator[None]:
    """Cut the pools off as soon as one works on the rollout, and let them come back when that was noticed."""
    over = threading.Event()

    def wait_for(happened: Callable[[], bool]) -> None:
        while not happened() and not over.wait(0.05):
            pass

    def at_work() -> bool:
        # Before the stage begins, its folder on this machine says so without a request.
        begun = any(warehouse.root.glob("staging/*/*-rollout"))
        names = [file.name for file in warehouse.store.files("staging")] if begun else []
        return any("-rollout/heartbeats/" in name and "/alive/" in name for name in names)

    def cut_off() -> None:
        wait_for(at_work)
        for pool in pools:
            pool.cut_off()
        wait_for(lambda: told(STARTED_AGAIN))
        for pool in pools:
            pool.come_back()

    cutter = threading.Thread(target=cut_off)
    cutter.start()
    try:
        yield
    finally:
        over.set()
        cutter.join()


def test_a_round_on_other_machines_that_are_cut_off_for_a_while_has_the_tables_of_a_folder(
    tiny_run: Warehouse, machines: Cluster, bucket_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told(words: str) -> bool:
        return any(words in line for line in caplog.messages)

    beam = BeamSettings(runner="PortableRunner", options=machines.options, restarts=50, silent_seconds=10)
    warehouse = create_warehouse(bucket_url)
    with cut_off_in_the_middle(machines.pools, warehouse, told), caplog.at_level(logging.WARNING):
        run_stages(tiny_config(BucketUrl(bucket_url), beam))
    assert told(STARTED_AGAIN)
    assert any((machine.disk / "caches" / "trajmill").glob("*/models/*/*") for machine in machines.pools)
    assert_same(open_warehouse(bucket_url), tiny_run)
