import io
import math
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faulty_proxy import FaultyProxy, faulty_proxy
from tests.warehouse.samples import commit_rounds
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.delta_log import delta_table
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import checked_weights, keep_weights
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.store.base import FileStore, StoreError, store_at
from trajmill.warehouse.store.bucket import _file_system
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.store.ranges import _kept
from trajmill.warehouse.upkeep import damage
from trajmill.warehouse.views import connect, refresh_views

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


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


TABLE = "step_verdicts"
ENTRY = f"tables/{TABLE}/_delta_log/{1:020d}.json"


def cut(store: FileStore, name: str) -> None:
    store.put(name, (store.get(name) or b"")[:200])


def missing(store: FileStore, name: str) -> None:
    store.delete(name)


def test_each_damage_is_named_and_mended_by_a_copy(bucket_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.warehouse.store.ranges.PATIENCE", 1.0)
    warehouse = Warehouse(create_warehouse(bucket_url).store.impatient())
    commit_rounds(warehouse, 2, 5)
    store, query = warehouse.store, f"FROM {TABLE}"
    [parquet, _] = [file.name for file in store.files(f"tables/{TABLE}") if file.name.endswith(".parquet")]

    def read() -> None:
        read_table(warehouse, TABLE)

    def ask() -> None:
        run_sql(warehouse, query)

    # A query reads the logs of all tables, so that each sort of file is damaged for one query alone.
    cases = [(missing, ENTRY, read), (cut, ENTRY, ask)]
    cases += [(cut, parquet, read), (missing, parquet, read), (cut, parquet, ask)]
    read()
    for spoil, name, use in cases:
        whole = store.get(name)
        assert whole is not None
        spoil(store, name)
        _file_system.cache_clear()
        _kept.cache_clear()
        with pytest.raises(BadInputError) as caught:
            use()
        line = str(caught.value)
        assert line.startswith(store.address) and name.rpartition("/")[2] in line, (spoil, line)
        assert "restore" in line and "\n" not in line, (spoil, line)
        store.put(name, whole)
    assert read_table(warehouse, TABLE).num_rows == run_sql(warehouse, query).num_rows == 10


def test_flipped_bytes_of_weights_are_named_whether_there_is_a_copy_or_not(bucket_url: str, tmp_path: Path) -> None:
    warehouse = create_warehouse(bucket_url)
    fresh, place = tmp_path / "fresh", warehouse.model("embedded-1")
    fresh.mkdir()
    (fresh / "model.safetensors").write_bytes(bytes(1000))
    keep_weights(warehouse, fresh, place)
    checked_weights(warehouse, place)
    store, name = warehouse.store, warehouse.name(place / "model.safetensors")
    (place / "model.safetensors").write_bytes(b"\x01" + bytes(999))
    checked_weights(warehouse, place)
    assert (place / "model.safetensors").read_bytes() == bytes(1000), "the damaged copy of a whole file is replaced"
    assert list(damage(warehouse)) == []
    store.put(name, b"\x01" + bytes(999))
    [line] = damage(warehouse)
    assert name in line, "a whole copy on this machine is not what is stored"
    shutil.rmtree(place)
    for _ in range(2):
        with pytest.raises(BadInputError) as caught:
            checked_weights(warehouse, place)
        assert str(caught.value) == f"{store.uri(name)}: changed since it was stored; restore it from a copy"
    store.put(name, bytes(1000))
    checked_weights(warehouse, place)


def test_each_thread_reads_where_it_has_set_its_position(bucket_url: str) -> None:
    store = store_at(bucket_url)
    store.put("letters", b"abcdef")
    files, before = store.arrow_files()
    assert files is not None
    handler = files.handler.fs.open(f"{before}letters")
    with ThreadPoolExecutor(1) as other:
        handler.seek(1)
        other.submit(handler.seek, -2, io.SEEK_END).result()
        assert (handler.read(2), other.submit(handler.read).result()) == (b"bc", b"ef")
    assert (handler.tell(), handler.read(), handler.read(1)) == (3, b"def", b"")


def test_duckdb_reads_all_row_groups_of_a_large_file(bucket_url: str) -> None:
    """It asks for many small ranges of a large file before it reads one; a small file it reads whole."""
    store, buffer = store_at(bucket_url), io.BytesIO()
    groups, noise = 16, random.Random(0)
    with pq.ParquetWriter(buffer, pa.schema([("number", pa.int64()), ("image", pa.binary())])) as writer:
        for number in range(groups):
            image = noise.randbytes(1 << 20)
            writer.write_table(pa.table({"number": [number], "image": [image]}, schema=writer.schema))
    store.put("large.parquet", buffer.getvalue())
    with duckdb.connect() as connection:
        store.register(connection)
        rows = connection.execute("SELECT number FROM read_parquet(?)", [store.uri("large.parquet")]).fetchall()
    assert sorted(rows) == [(number,) for number in range(groups)]


@pytest.fixture(params=["azure_url", "google_url"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_a_warehouse_is_written_and_read(url: str) -> None:
    warehouse = create_warehouse(url)
    commit_rounds(warehouse, 2, 5)
    assert read_table(open_warehouse(url), "step_verdicts").num_rows == 10
    assert run_sql(warehouse, "SELECT count(*) AS rows FROM step_verdicts").to_pylist() == [{"rows": 10}]
    with warehouse.store.hold("staging/run/lock", wait=False):
        assert warehouse.store.holder("staging/run/lock") is not None
    assert warehouse.store.create("once", b"1") and not warehouse.store.create("once", b"2")
    assert warehouse.store.folders("") == ["staging", "tables"]
    warehouse.store.delete("once")
    assert warehouse.store.get("once") is None
    with pytest.raises(BadInputError, match=r"\A[^\n]*there is no such bucket[^\n]*\Z"):
        create_warehouse(f"{url.partition('://')[0]}://elsewhere/folder")


@pytest.fixture
def replacing_url(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with faulty_proxy(s3_endpoint, without="If-None-Match") as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield bucket_url


def test_no_lock_is_held_on_it(replacing_url: str) -> None:
    store = store_at(replacing_url)
    assert store.create("a", b"1") and store.create("a", b"2"), "it replaces"
    for wait in (True, False):
        with (
            pytest.raises(BadInputError, match=r"\As3://[^\n]*only if it is absent[^\n]*\Z"),
            store.hold("staging/run/lock", wait=wait),
        ):
            pytest.fail("two could hold it")
