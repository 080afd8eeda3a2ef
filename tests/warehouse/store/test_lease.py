import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from trajmill.warehouse.layout import (
    RunInUpkeepError,
    RunInUseError,
    Warehouse,
    create_warehouse,
    sole_keeper,
    sole_worker,
    worker_of,
)
from trajmill.warehouse.store.base import FileStore, HeldError, LeaseLostError, StoreError, is_alive, store_at
from trajmill.warehouse.store.bucket import BucketStore
from trajmill.warehouse.store.lease import Generation, create_generation, leased, number_of, this_process


@pytest.mark.slow
def test_one_at_a_time_holds_a_lock(store: FileStore) -> None:
    at_work: list[int] = []

    def work(number: int) -> None:
        with store.hold("tables/screens/_lock", wait=True):
            at_work.append(number)
            assert at_work == [number]
            at_work.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


def test_a_held_lock_is_refused_and_names_its_holder(store: FileStore) -> None:
    name = "staging/run/lock"
    assert store.holder(name) is None
    with store.hold(name, wait=False):
        held = store.holder(name)
        assert held
        with pytest.raises(HeldError, match=held), store.hold(name, wait=False):
            pass
    assert store.holder(name) is None
    with store.hold(name, wait=False):
        pass


@pytest.mark.slow
def test_a_lease_that_nobody_renews_is_taken_after_its_expiry(bucket_url: str) -> None:
    store, name = store_at(bucket_url), "staging/run/lock"
    assert create_generation(store, name, Generation(1, "1 on another", ["another boot", 1, 1, 1], 1.0, "a"))
    with pytest.raises(HeldError, match="1 on another"), leased(store, name, wait=False):
        pass
    with leased(store, name, wait=True):
        assert store.holder(name) != "1 on another"


def test_a_killed_holder_of_this_machine_is_not_waited_for(bucket_url: str) -> None:
    store, name = store_at(bucket_url), "staging/run/lock"
    boot, namespace, *_ = this_process()
    assert create_generation(store, name, Generation(1, "killed", [boot, namespace, 2**22 + 1, 17], 3600.0, "a"))
    with leased(store, name, wait=False):
        pass


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background job"])
def handler_of_interrupts(request: pytest.FixtureRequest) -> Iterator[object]:
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    assert signal.getsignal(signal.SIGINT) is request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler_of_interrupts")
def test_who_stood_still_finds_the_lease_taken(bucket_url: str) -> None:
    store, name = store_at(bucket_url), "staging/run/lock"
    lost = pytest.raises(LeaseLostError, match="run the same command again")
    began = time.monotonic()
    with lost, leased(store, "another", wait=False), leased(store, name, wait=False, seconds=0.4):
        taken = max(number_of(file) for file in store.files(name)) + 1
        while not create_generation(store, name, Generation(taken, "the next", this_process(), 60.0, "a")):
            taken += 1
        try:
            time.sleep(600.0)
        except KeyboardInterrupt:
            raise RuntimeError("a pipeline was interrupted") from None
    assert time.monotonic() - began < 600.0
    assert store.holder(name) == "the next"


@pytest.mark.slow
def test_a_lease_outlives_a_store_that_is_gone_for_a_time(bucket_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create, began = BucketStore.create, list[float]()

    def there_between_renewals(store: BucketStore, name: str, data: bytes) -> bool:
        if began and not 0.2 < (time.monotonic() - began[0]) % 1.0 < 0.8:
            raise StoreError("gone")
        return create(store, name, data)

    monkeypatch.setattr(BucketStore, "create", there_between_renewals)
    store, name = store_at(bucket_url), "staging/run/lock"
    with leased(store, name, wait=False, seconds=4.0):
        began.append(time.monotonic())
        time.sleep(6.0)
        began.clear()
        with pytest.raises(HeldError), leased(store, name, wait=False):
            pass
    assert len(store.files(name)) <= 10, "old generations are deleted"


RUN = "run-a"


@pytest.fixture
def shared(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setattr("trajmill.warehouse.layout._SECONDS_BETWEEN_LOOKS", 0.05)
    return create_warehouse(store.address)


@contextmanager
def upkeep_elsewhere(warehouse: Warehouse) -> Iterator[threading.Event]:
    """Another thread holds the run for its upkeep until the event is set."""
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with sole_keeper(warehouse, RUN):
            entered.set()
            leave.wait()

    other = threading.Thread(target=work, daemon=True)
    other.start()
    entered.wait()
    yield leave
    leave.set()
    other.join()


def test_a_run_that_begins_during_its_upkeep_waits_and_says_so_once(
    shared: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    with upkeep_elsewhere(shared) as leave:
        assert worker_of(shared, RUN) is None
        threading.Timer(0.3, leave.set).start()
        with sole_worker(shared, RUN):
            assert leave.is_set() and worker_of(shared, RUN)
    # Prefect's threads of other tests may still write to the log.
    [line] = [each.getMessage() for each in caplog.records if each.name.startswith("trajmill")]
    assert line.startswith(f"run {RUN} in {shared.address}: process ")
    assert line.endswith(" deletes what it does not need; wait for it to end (this process waits, 15 minutes at most)")


def test_upkeep_waits_for_nobody_and_is_bounded_itself(shared: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with sole_worker(shared, RUN), pytest.raises(RunInUseError, match="is at work on it"), sole_keeper(shared, RUN):
        pass
    monkeypatch.setattr("trajmill.warehouse.layout._UPKEEP_SECONDS", 0.0)
    with upkeep_elsewhere(shared), pytest.raises(RunInUpkeepError), sole_worker(shared, RUN):
        pass


def test_a_zombie_is_not_alive() -> None:
    killed = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(killed.pid) and is_alive(os.getpid())
    killed.wait()
