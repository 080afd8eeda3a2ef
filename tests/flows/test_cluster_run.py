"""A whole round on a Dask cluster of machines that have only a bucket in common, while some leave and one joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any

import pytest
from distributed import Client

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from tests.pipelines.executors.machines import Cluster, cluster, may_make_networks
from trajmill.pipelines.executors.cluster import _connected
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not may_make_networks(), reason="it takes root to make network namespaces"),
]


@pytest.fixture(scope="module")
def machines() -> Iterator[Cluster]:
    with cluster(workers=3) as running:
        yield running
        _connected(running.scheduler).close()


@pytest.fixture(scope="module")
def s3_endpoint(machines: Cluster) -> str:
    return machines.s3_endpoint


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 600
    while not happened():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def test_a_round_on_machines_of_which_one_dies_one_is_cut_off_and_one_joins_has_the_tables_of_a_folder(
    tiny_run: Warehouse, machines: Cluster, bucket_url: str
) -> None:
    warehouse = create_warehouse(bucket_url)
    dies, leaves, _ = machines.machines
    with Client(machines.scheduler, timeout=180, set_as_default=False) as client:
        client.get_task_stream()
        names: dict[str, str] = {}

        def present() -> dict[str, str]:
            found = client.scheduler_info(n_workers=-1)["workers"]
            now = {address: worker["name"] for address, worker in found.items()}
            names.update(now)
            return now

        def working() -> set[str]:
            now = present()
            return {now[address] for address, keys in client.processing().items() if keys and address in now}

        def disturb() -> None:
            until(lambda: any("-rollout/queue-" in file.name for file in warehouse.store.files("staging")))
            until(lambda: {dies.name, leaves.name} <= working())
            dies.kill()
            leaves.cut_off()
            machines.join()
            until(lambda: leaves.name not in present().values())
            leaves.come_back()

        client.wait_for_workers(3, timeout=180)
        with ThreadPoolExecutor(1) as thread:
            disturbed = thread.submit(disturb)
            run_stages(tiny_config(BucketUrl(bucket_url), machines.settings))
            disturbed.result()
        until(lambda: f"{leaves.name}-again1" in present().values())
        done: list[dict[str, Any]] = client.get_task_stream()
    assert_same(open_warehouse(bucket_url), tiny_run)
    spans = [(names[task["worker"]], each["start"], each["stop"]) for task in done for each in task["startstops"]]
    assert any(one != other and max(a, c) < min(b, d) for (one, a, b), (other, c, d) in combinations(spans, 2))
    assert {"m4", "m5"} <= {name for name, *_ in spans}, "who stayed and who joined late have worked"
