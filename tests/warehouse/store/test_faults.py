import math
import time
from collections.abc import Iterator
from itertools import chain, repeat

import duckdb
import pytest

from tests.faulty_proxy import FaultyProxy, faulty_proxy
from tests.warehouse.samples import commit_rounds, commit_rows, stage_run, step_verdicts
from trajmill.warehouse.delta_log import delta_table
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staging import mark_done, read_marker
from trajmill.warehouse.store.base import StoreError, store_at
from trajmill.warehouse.store.bucket import _file_system
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.store.lease import number_of
from trajmill.warehouse.store.ranges import _kept
from trajmill.warehouse.views import connect, refresh_views

pytestmark = pytest.mark.slow

_ROUNDS = range(1, 3)


@pytest.fixture
def proxy(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def test_commits_through_faults_are_made_once(bucket_url: str, proxy: FaultyProxy) -> None:
    warehouse = create_warehouse(bucket_url)
    for number in _ROUNDS:
        at = stage_run("judge", number)
        commit_rows(warehouse, at, *step_verdicts(5, at))
        mark_done(warehouse, at.staging(warehouse), "key", {"round": number})
        assert read_marker(warehouse, at.staging(warehouse), "key") == {"round": number}
    rows = read_table(warehouse, "step_verdicts")
    assert sorted(rows["round"].to_pylist()) == sorted(number for number in _ROUNDS for _ in range(5))
    assert {"reset", "lost reply", "truncated"} <= set(proxy.met)


def test_a_file_with_cut_replies_is_read(bucket_url: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = chain(["", *["truncated"] * 8], repeat(""))
    monkeypatch.setattr(proxy, "fault", faults.__next__)
    store = store_at(bucket_url)
    store.put("tables/steps/a.parquet", bytes(5000))
    files, before = store.arrow_files()
    assert files is not None
    assert files.handler.fs.cat_file(f"{before}tables/steps/a.parquet", start=0, end=5000) == bytes(5000)


def test_a_server_that_is_gone_for_a_while_is_waited_for(bucket_url: str, proxy: FaultyProxy) -> None:
    warehouse = create_warehouse(bucket_url)
    proxy.gone_until = time.monotonic() + 6.0
    commit_rounds(warehouse, 2, 5)
    proxy.gone_until = time.monotonic() + 6.0
    assert read_table(warehouse, "step_verdicts").num_rows == 10


def test_a_server_that_stays_away_is_no_damage(
    bucket_url: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = create_warehouse(bucket_url)
    commit_rounds(warehouse, 1, 5)
    refresh_views(warehouse)
    # This process has kept the small files.
    _file_system.cache_clear()
    _kept.cache_clear()
    connection = connect(warehouse)
    monkeypatch.setattr("trajmill.warehouse.store.ranges.PATIENCE", 0.0)
    hasty = Warehouse(warehouse.store.impatient())
    proxy.gone_until = math.inf
    with pytest.raises(StoreError, match="the store does not answer"):
        read_table(hasty, "step_verdicts")
    with pytest.raises(StoreError, match="the store does not answer"):
        delta_table(hasty, "step_verdicts")
    with pytest.raises(duckdb.Error) as told:
        connection.execute("SELECT count(label) FROM step_verdicts").fetchall()
    assert isinstance(unreadable(bucket_url, told.value), StoreError)


def test_locks_are_held_through_faults(bucket_url: str, proxy: FaultyProxy) -> None:
    store, held = store_at(bucket_url), 0
    for _ in range(4):
        with store.hold("staging/run/lock", wait=True):
            held += 1
            assert store.holder("staging/run/lock") is not None
    numbers = [number_of(file) for file in store.files("staging/run/lock")]
    assert held == 4 and numbers == sorted(set(numbers))
