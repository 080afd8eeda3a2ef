import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.warehouse.store.conftest import store as store
from trajmill.warehouse.layout import (
    RunInUpkeepError,
    RunInUseError,
    Warehouse,
    create_warehouse,
    sole_keeper,
    sole_worker,
    worker_of,
)
from trajmill.warehouse.store.base import FileStore

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
    [line] = caplog.messages
    assert line.startswith(f"run {RUN} in {shared.address}: process ")
    assert line.endswith(" deletes what it does not need; wait for it to end (this process waits, 15 minutes at most)")


def test_upkeep_waits_for_nobody_and_is_not_waited_for_without_end(
    shared: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sole_worker(shared, RUN), pytest.raises(RunInUseError, match="is at work on it"), sole_keeper(shared, RUN):
        pass
    monkeypatch.setattr("trajmill.warehouse.layout._UPKEEP_SECONDS", 0.0)
    with upkeep_elsewhere(shared), pytest.raises(RunInUpkeepError), sole_worker(shared, RUN):
        pass
