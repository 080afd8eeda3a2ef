import shutil
from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rounds
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import checked_weights, keep_weights
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.store.base import FileStore
from trajmill.warehouse.store.bucket import _file_system
from trajmill.warehouse.store.ranges import _kept
from trajmill.warehouse.upkeep import damage

pytestmark = pytest.mark.slow

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
        # As another process, which has kept no small file.
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
