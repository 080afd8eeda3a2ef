from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from tests.pipelines.executors.machines import Cluster, Machine
from tests.warehouse.samples import stage_run, step_verdicts
from trajmill.pipelines.fan_out import StageWork, WrittenFiles, fan_out
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.store.base import StoreError

pytestmark = pytest.mark.slow

AT = stage_run("judge")
ORIGIN = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
SHARDS = ([0], [1])
BAD_INPUT, BUG = -1, -2


@dataclass(frozen=True)
class WriteVerdicts(StageWork[Sequence[int]]):
    def identity(self, numbers: Sequence[int]) -> object:
        return list(numbers)

    def __call__(self, shard: str, numbers: Sequence[int]) -> WrittenFiles:
        if BAD_INPUT in numbers:
            raise BadInputError("names.txt:3: not a name; correct it")
        if BUG in numbers:
            raise ValueError("a bug")
        store = self.warehouse.store
        if store.create(f"begun/{numbers[0]}", str(os.getsid(0)).encode()):
            while not self._may_go_on():
                time.sleep(0.05)
        rows = [row for number in numbers for row in step_verdicts(1, AT, number)]
        return self.written(shard, {"step_verdicts": rows})

    def _may_go_on(self) -> bool:
        # On a busy machine it may be cut off for longer than the store is tried.
        with suppress(StoreError):
            return self.warehouse.store.get("leave") is not None
        return False


@pytest.fixture(scope="module")
def s3_endpoint(machines: Cluster) -> str:
    return machines.s3_endpoint


@contextmanager
def when_both_have_begun(machines: Cluster, warehouse: Warehouse, do: Callable[[Machine], None]) -> Iterator[None]:
    def act() -> None:
        while any(warehouse.store.get(f"begun/{numbers[0]}") is None for numbers in SHARDS):
            time.sleep(0.05)
        session = int(warehouse.store.get("begun/0") or 0)
        do(next(pool for pool in machines.pools if pool.session == session))
        warehouse.store.put("leave", b"")

    actor = threading.Thread(target=act, daemon=True)
    actor.start()
    yield
    actor.join()


def assert_each_once(warehouse: Warehouse, made: WrittenFiles) -> None:
    commit_stage(warehouse, AT, made.files)
    assert sorted(row.index for row in read_rows(warehouse, StepVerdict)) == [0, 1]


@pytest.mark.parametrize(
    ("number", "kind", "line"),
    [
        (BAD_INPUT, BadInputError, r"\Anames\.txt:3: not a name; correct it\Z"),
        (BUG, TrajmillError, r"\Astage judge: a worker failed: ValueError: a bug\Z"),
    ],
)
def test_an_error_of_a_worker_arrives_as_one_line_and_is_not_tried_again(
    machines: Cluster, bucket_url: str, number: int, kind: type[Exception], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = create_warehouse(bucket_url)
    with pytest.raises(kind, match=line):
        fan_out(WriteVerdicts(warehouse, AT, ORIGIN), [[number]], machines.settings())
    assert not [line for line in caplog.messages if "started again" in line]


def test_a_machine_that_is_cut_off_costs_one_more_start_and_adds_nothing_when_it_comes_back(
    machines: Cluster, bucket_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = create_warehouse(bucket_url)
    away: list[Machine] = []

    def cut_off(machine: Machine) -> None:
        machine.cut_off()
        away.append(machine)

    with when_both_have_begun(machines, warehouse, cut_off), caplog.at_level(logging.WARNING):
        made = fan_out(WriteVerdicts(warehouse, AT, ORIGIN), SHARDS, machines.settings(50, silent_seconds=3))
    assert any("no worker sends a heartbeat any more; it is started again" in line for line in caplog.messages)
    away[0].come_back()
    while not any("-s1" in file.name and "00000-" in file.name for file in warehouse.store.files("tables")):
        time.sleep(0.05)
    assert_each_once(warehouse, made)


def test_a_killed_machine_costs_one_more_start(
    machines: Cluster, bucket_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = create_warehouse(bucket_url)
    with when_both_have_begun(machines, warehouse, Machine.kill), caplog.at_level(logging.WARNING):
        made = fan_out(WriteVerdicts(warehouse, AT, ORIGIN), SHARDS, machines.settings(50, silent_seconds=3))
    machines.replace_killed()
    told = [line for line in caplog.messages if "it is started again" in line]
    assert told and not any("(>)" in line for line in told), "the end of an object's words is not what was wrong"
    assert_each_once(warehouse, made)
