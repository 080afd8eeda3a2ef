"""A round through Beam's portable path: a job service and worker pools that have only an S3 server in common."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from tests.pipelines.engine.machines import Machine, cluster
from trajmill.flows.configuration.config import BeamSection
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.store.address import BucketUrl

pytestmark = pytest.mark.slow


@contextmanager
def killed_in_the_middle(machine: Machine, warehouse: Warehouse, stage: str) -> Iterator[None]:
    """Kill a machine once a stage has stored some episodes and is not finished."""
    over = threading.Event()

    def kill_in_time() -> None:
        while not over.wait(0.05):
            if any(f"-{stage}/episodes-" in file.name for file in warehouse.store.files("staging")):
                machine.kill()
                return

    killer = threading.Thread(target=kill_in_time)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def test_a_round_on_other_machines_of_which_one_is_killed_has_the_tables_of_a_folder(
    tiny_run: Warehouse,
    bucket_url: str,
    s3_endpoint: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with cluster(s3_endpoint) as machines:
        beam = BeamSection(runner="PortableRunner", options=machines.options, restarts=50, silent_seconds=10)
        warehouse = create_warehouse(bucket_url)
        with killed_in_the_middle(machines.pools[0], warehouse, "rollout"), caplog.at_level(logging.WARNING):
            run_stages(tiny_config(BucketUrl(bucket_url), beam))
        assert any((machine.disk / "caches" / "trajmill").glob("*/models/*/*") for machine in machines.pools)
    assert_same(open_warehouse(bucket_url), tiny_run)
    assert any(line.startswith("stage rollout: ") and "it is started again" in line for line in caplog.messages)
