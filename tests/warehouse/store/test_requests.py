import io
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faulty_proxy import faulty_proxy
from tests.warehouse.samples import commit_rounds, commit_rows, stage_run, step_verdicts, trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import one_snapshot, table_versions
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.store.base import store_at

pytestmark = pytest.mark.slow

FILES = 3
COMMIT = 6
"""Requests: a look at the log, the entry, and the sizes of the log; three for the lock."""


class CountedBucket(NamedTuple):
    """A warehouse in a bucket, and the numbers of the requests to it."""

    warehouse: Warehouse
    numbers: Iterator[int]

    def requests_of(self, ask: Callable[[], object]) -> int:
        before = next(self.numbers)
        ask()
        return next(self.numbers) - before - 1


@pytest.fixture
def bucket(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedBucket]:
    with faulty_proxy(s3_endpoint, without="Of-No-Request") as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield CountedBucket(create_warehouse(bucket_url), proxy.numbers)


def test_a_commit_and_the_reader_after_it_ask_for_what_is_new(bucket: CountedBucket) -> None:
    committing, asking = list[int](), list[int]()
    for number in range(FILES):
        at = stage_run("judge", number)
        files = write_tables(bucket.warehouse, at, {"step_verdicts": step_verdicts(2, at)})
        committing.append(bucket.requests_of(partial(commit_stage, bucket.warehouse, at, files)))
        asking.append(bucket.requests_of(partial(table_versions, bucket.warehouse)))
        assert table_versions(bucket.warehouse)["step_verdicts"] == number
    # The log of each table is listed; sizes and entries that this process has written or read are not requested again.
    assert set(asking[1:]) == {len(TABLES)}
    assert committing[1:] == [COMMIT] * (FILES - 1)


def test_reading_a_table_again_or_a_row_of_it_asks_for_the_files_that_may_have_it(bucket: CountedBucket) -> None:
    for number in range(FILES):
        at = stage_run("rollout", number)
        rows = [trajectory(each, at, "q") for each in range(20)]
        commit_rows(bucket.warehouse, at, *rows)
    where = {"trajectory_id": [rows[7].trajectory_id]}

    def read() -> None:
        assert read_table(bucket.warehouse, "trajectories").num_rows == 20 * FILES

    def look_up() -> None:
        found = read_table(bucket.warehouse, "trajectories", ["round"], rounds=[FILES - 1], where=where)
        assert found["round"].to_pylist() == [FILES - 1]

    # The log is listed; each small file was asked for once.
    assert [bucket.requests_of(read) for _ in range(3)][1:] == [1] * 2
    with one_snapshot():
        assert [bucket.requests_of(look_up) for _ in range(3)] == [1, 0, 0]


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
