"""Files in a bucket are read in ranges, by several threads at once."""

import io
import random
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajmill.warehouse.store.base import store_at

pytestmark = pytest.mark.slow


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
