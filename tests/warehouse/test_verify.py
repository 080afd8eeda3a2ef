import json
import shutil
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tests.warehouse.samples import commit_rounds, stage_run
from tests.warehouse.test_releases import export, release
from tests.warehouse.test_screens import commit_screens
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.delta_log import HASHES, table_versions
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import checked_weights, keep_weights, verify_release
from trajmill.warehouse.staging import mark_done, read_marker
from trajmill.warehouse.upkeep import compact_table, damage, maintain

pytestmark = pytest.mark.slow

FLIPS = 40
TABLE = "step_verdicts"


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = create_warehouse(tmp_path_factory.mktemp("whole") / "warehouse")
    commit_rounds(warehouse, 3, 5)
    compact_table(warehouse, TABLE, fewest=2)
    commit_rounds(warehouse, 4, 5)
    commit_screens(warehouse, 1, [1, 2])
    export(warehouse, "first")
    release(warehouse, "first")
    fresh = warehouse.root / "fresh"
    fresh.mkdir()
    (fresh / "model.safetensors").write_bytes(bytes(200))
    keep_weights(warehouse, fresh, warehouse.model("v1"))
    mark_done(warehouse, stage_run("judge").staging(warehouse), "key", {"rows": 5})
    return warehouse


@pytest.fixture
def whole(undamaged: Warehouse, tmp_path: Path) -> Warehouse:
    return open_warehouse(Path(shutil.copytree(undamaged.root, tmp_path / "warehouse")))


def stored_files(warehouse: Warehouse) -> list[Path]:
    """All files but locks and views, in which nothing is stored."""
    kinds = ("*.json", "*.parquet", "*.safetensors", "README.md", "SHA256SUMS", "_last_checkpoint")
    return sorted(path for kind in kinds for path in warehouse.root.rglob(kind))


def read(warehouse: Warehouse) -> list[object]:
    """All that the normal readers give."""
    checked_weights(warehouse, warehouse.model("v1"))
    tables: list[pa.Table] = [read_table(warehouse, table) for table in TABLES]
    marker = read_marker(warehouse, stage_run("judge").staging(warehouse), "key")
    return [
        *(table.to_pydict() for table in tables),
        table_versions(warehouse),
        verify_release(warehouse, "first"),
        marker,
    ]


def test_a_flipped_bit_is_named_or_harmless(whole: Warehouse) -> None:
    assert list(damage(whole)) == []
    random, before = Random(FLIPS), read(whole)
    for path in random.choices(stored_files(whole), k=FLIPS):
        content = path.read_bytes()
        place, bit = random.randrange(len(content)), random.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        named = list(damage(whole))
        assert all("\n" not in line and "restore" in line for line in named), (path, place, bit, named)
        if not any(path.name in line for line in named):
            with suppress(BadInputError):
                assert read(whole) == before, (path, place, bit, named)
        path.write_bytes(content)
    assert list(damage(whole)) == [] and read(whole) == before


def test_a_lost_log_entry_is_noticed_even_with_the_sizes_of_the_log(whole: Warehouse) -> None:
    folder = whole.table(TABLE)
    newest = max((folder / "_delta_log").glob("*.json"))
    newest.unlink()
    (folder / "_log_sizes.json").unlink()
    with pytest.raises(BadInputError, match=r"\A[^\n]*_log_sizes\.json: missing[^\n]*newer entries[^\n]*\Z"):
        read_table(whole, TABLE)
    assert any("_log_sizes.json" in line for line in damage(whole))


def test_readers_and_upkeep_stop_at_a_changed_page_and_verify_says_what_is_lost(whole: Warehouse) -> None:
    path = max(whole.table(TABLE).glob("*.parquet"), key=lambda each: "joined" not in each.name)
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with pytest.raises(BadInputError, match=rf"{path.name}|CRC"):
        read_table(whole, TABLE)
    [line] = damage(whole)
    assert line.endswith(f"{path.name}: changed since it was committed (5 rows of {TABLE}); restore it from a copy")
    with pytest.raises(BadInputError, match=path.name):
        for day in range(30):
            maintain(whole, keep_releases=0, unused_days=1e6, now=time.time() + 86_400.0 * day)
    path.unlink()
    [line] = damage(whole)
    assert f"{path.name}: missing, though the log (5 rows of {TABLE}) names it" in line


def test_a_table_of_an_earlier_trajmill_is_read_whole(whole: Warehouse) -> None:
    folder = whole.table(TABLE)
    sizes = json.loads((folder / "_log_sizes.json").read_text())
    for entry in (folder / "_delta_log").glob("*.json"):
        entry.write_text(entry.read_text().replace(HASHES, HASHES[::-1]))
    (folder / "_log_sizes.json").write_text(
        json.dumps([size for name, (size, _) in sorted(sizes.items()) if name.endswith("json")])
    )
    assert list(damage(whole)) == []
    path = max(folder.glob("*.parquet"), key=lambda each: "joined" not in each.name)
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    [line] = damage(whole)
    assert path.name in line and "CRC" in line
