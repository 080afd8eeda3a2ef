import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.warehouse.samples import commit_rounds, stage_run, step_verdicts
from tests.warehouse.test_releases import export_and_release
from tests.warehouse.test_screens import commit_screens, screen_id
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.registry import TABLES, rows_to_arrow
from trajmill.warehouse.commit import commit
from trajmill.warehouse.delta_log import HASHES, _read_log, committed_files, table_versions
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.releases import checked_weights, keep_weights, verify_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.staging import mark_done, read_marker
from trajmill.warehouse.upkeep import compact_table, damage, maintain
from trajmill.warehouse.views import refresh_views

TABLE = "step_verdicts"
COUNT = f"SELECT count(*) AS n FROM {TABLE}"
emptied = partial(Path.write_bytes, data=b"")


@pytest.fixture(scope="module")
def undamaged(empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = open_warehouse(Path(shutil.copytree(empty_warehouse, tmp_path_factory.mktemp("a") / "a warehouse")))
    commit_rounds(warehouse, 3, 5)
    refresh_views(warehouse)
    return warehouse


@pytest.fixture
def three_rounds(undamaged: Warehouse, tmp_path: Path) -> Warehouse:
    shutil.copytree(undamaged.root, tmp_path / "a warehouse")
    return open_warehouse(tmp_path / "a warehouse")


def log_of(warehouse: Warehouse) -> list[Path]:
    return sorted((warehouse.table(TABLE) / "_delta_log").glob("*.json"))


def cut_at_a_line(path: Path) -> None:
    path.write_text(path.read_text().splitlines()[0] + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "says"), [(emptied, "empty"), (Path.unlink, "missing"), (cut_at_a_line, r"has \d+ of the \d+ bytes")]
)
def test_a_damaged_log_entry_is_named_and_nothing_is_committed_on_top(
    three_rounds: Warehouse, damage: Callable[[Path], None], says: str
) -> None:
    uses: list[Callable[[], object]] = [
        lambda: read_table(three_rounds, TABLE),
        lambda: run_sql(three_rounds, COUNT),
        lambda: commit(three_rounds, TABLE, [], stage_run("judge", 4)),
    ]
    for entry in log_of(three_rounds)[::2]:
        whole = entry.read_bytes()
        damage(entry)
        for use in uses:
            with pytest.raises(BadInputError, match=rf"\A[^\n]*{entry.name}: {says}[^\n]*; restore[^\n]*\Z"):
                use()
        entry.write_bytes(whole)
    assert len(log_of(three_rounds)) == 3


def test_a_table_of_an_earlier_trajmill_is_read_and_its_gaps_are_named(three_rounds: Warehouse) -> None:
    for entry in log_of(three_rounds):
        entry.write_text(entry.read_text().replace(HASHES, "another"))
    (three_rounds.table(TABLE) / "_log_sizes.json").unlink()
    assert read_table(three_rounds, TABLE).num_rows == 15
    log_of(three_rounds)[1].write_text("{")
    with pytest.raises(BadInputError, match=r"\A[^\n]*1\.json: not a log of Delta[^\n]*\Z"):
        read_table(three_rounds, TABLE)
    log_of(three_rounds)[1].unlink()
    with pytest.raises(BadInputError, match=r"1\.json: missing"):
        read_table(three_rounds, TABLE)


def test_what_other_programs_commit_is_read(three_rounds: Warehouse) -> None:
    DeltaTable(str(three_rounds.table(TABLE))).optimize.compact()
    assert read_table(three_rounds, TABLE).num_rows == 15


def test_a_commit_that_was_killed_before_its_sizes_were_written_is_completed(three_rounds: Warehouse) -> None:
    sizes = three_rounds.table(TABLE) / "_log_sizes.json"
    before = sizes.read_text()
    at = stage_run("judge", 4)
    rows = read_table(three_rounds, TABLE)
    for _ in range(2):
        commit(three_rounds, TABLE, [write_shard(three_rounds, TABLE, at, rows)], at)
        after = sizes.read_text()
        sizes.write_text(before)
        _read_log.cache_clear()
    assert len(after) > len(before)


def cut_in_the_middle(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.slow
@pytest.mark.parametrize("damage", [emptied, Path.unlink, cut_in_the_middle])
def test_a_damaged_table_file_is_named(three_rounds: Warehouse, damage: Callable[[Path], None]) -> None:
    file = three_rounds.table(TABLE) / stage_run("judge", 2).shard_name()
    damage(file)
    reads: list[Callable[[], object]] = [
        lambda: read_table(three_rounds, TABLE),
        lambda: list(read_batches(three_rounds, TABLE)),
        lambda: run_sql(three_rounds, COUNT),
    ]
    for read in reads:
        with pytest.raises(BadInputError, match=rf"\A[^\n]*{file.name}[^\n]*; restore[^\n]*\Z"):
            read()


def test_a_damaged_file_of_screens_is_named(warehouse: Warehouse) -> None:
    commit_screens(warehouse, 1, [1])
    [file], screens = committed_files(warehouse, "screens"), WarehouseScreens(warehouse)
    cut_in_the_middle(file)
    reads: list[Callable[[], object]] = [lambda: WarehouseScreens(warehouse), lambda: screens.image(screen_id(1))]
    for read in reads:
        with pytest.raises(BadInputError, match=rf"\A[^\n]*{file}[^\n]*; restore it from a copy\Z"):
            read()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"key": "k"}'])
def test_a_damaged_marker_names_its_file(warehouse: Warehouse, text: str) -> None:
    folder = stage_run("judge").staging(warehouse)
    mark_done(warehouse, folder, "k", {})
    (folder / "done.json").write_text(text)
    with pytest.raises(BadInputError, match=r"\A[^\n]*done\.json:1: not the marker[^\n]*\Z"):
        read_marker(warehouse, folder, "k")


ONE_LINE = r"\Adisk full while writing [^\n]+ run the same command again\Z"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_shard_that_meets_a_full_disk_leaves_no_file_and_a_commit_can_be_made_again(warehouse: Warehouse) -> None:
    at = stage_run("judge")
    data = rows_to_arrow("step_verdicts", step_verdicts(200, at))
    with room_for(2000), pytest.raises(TrajmillError, match=ONE_LINE):
        write_shard(warehouse, "step_verdicts", at, data)
    assert list(warehouse.table("step_verdicts").iterdir()) == []
    file = write_shard(warehouse, "step_verdicts", at, rows_to_arrow("step_verdicts", step_verdicts(5, at)))
    with room_for(100), pytest.raises(TrajmillError, match=ONE_LINE):
        commit(warehouse, "step_verdicts", [file], at)
    commit(warehouse, "step_verdicts", [file], at)
    assert read_table(warehouse, "step_verdicts").num_rows == 5


FLIPS = 500


@pytest.fixture(scope="module")
def stored_whole(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = create_warehouse(tmp_path_factory.mktemp("whole") / "warehouse")
    commit_rounds(warehouse, 3, 5)
    compact_table(warehouse, TABLE, fewest=2)
    commit_rounds(warehouse, 4, 5)
    commit_screens(warehouse, 1, [1, 2])
    export_and_release(warehouse, "first")
    fresh = warehouse.root / "fresh"
    fresh.mkdir()
    (fresh / "model.safetensors").write_bytes(bytes(200))
    keep_weights(warehouse, fresh, warehouse.model("v1"))
    mark_done(warehouse, stage_run("judge").staging(warehouse), "key", {"rows": 5})
    return warehouse


@pytest.fixture
def whole(stored_whole: Warehouse, tmp_path: Path) -> Warehouse:
    return open_warehouse(Path(shutil.copytree(stored_whole.root, tmp_path / "warehouse")))


def stored_files(warehouse: Warehouse) -> list[Path]:
    """All files but locks and views, in which nothing is stored."""
    kinds = ("*.json", "*.parquet", "*.safetensors", "README.md", "SHA256SUMS", "_last_checkpoint")
    return sorted(path for kind in kinds for path in warehouse.root.rglob(kind))


def read_all(warehouse: Warehouse) -> list[object]:
    checked_weights(warehouse, warehouse.model("v1"))
    tables: list[pa.Table] = [read_table(warehouse, table) for table in TABLES]
    marker = read_marker(warehouse, stage_run("judge").staging(warehouse), "key")
    rows = [table.to_pydict() for table in tables]
    return [*rows, table_versions(warehouse), verify_release(warehouse, "first"), marker]


def flip(path: Path, place: int, bit: int = 0) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])


@pytest.mark.slow
def test_a_flipped_bit_is_named_or_harmless(whole: Warehouse) -> None:
    assert list(damage(whole)) == []
    random, before, sql = Random(FLIPS), read_all(whole), f"SELECT * FROM {TABLE} ORDER BY ALL"
    rows = run_sql(whole, sql)
    for path in random.choices(stored_files(whole), k=FLIPS):
        content = path.read_bytes()
        place, bit = random.randrange(len(content)), random.randrange(8)
        flip(path, place, bit)
        named = list(damage(whole))
        assert all("\n" not in line and "restore" in line for line in named), (path, place, bit, named)
        with suppress(BadInputError):
            assert path.parent.name != TABLE or run_sql(whole, sql) == rows, "DuckDB ignores checksums"
        if not any(path.name in line for line in named):
            with suppress(BadInputError):
                assert read_all(whole) == before, (path, place, bit, named)
        path.write_bytes(content)
    assert list(damage(whole)) == [] and read_all(whole) == before


def test_readers_notice_a_flipped_bit_of_a_footer(whole: Warehouse) -> None:
    path = min(whole.table(TABLE).glob("*.parquet"))
    size = path.stat().st_size
    for place in range(size - 8 - int.from_bytes(path.read_bytes()[-8:-4], "little"), size, 5):
        flip(path, place, place % 8)
        with pytest.raises(BadInputError, match=path.name):
            read_table(whole, TABLE)
        flip(path, place, place % 8)


def test_changed_sizes_of_a_log_are_named_instead_of_its_entries(whole: Warehouse) -> None:
    sizes = whole.table(TABLE) / "_log_sizes.json"
    for place in range(0, sizes.stat().st_size - 1, 5):
        flip(sizes, place)
        _read_log.cache_clear()
        with pytest.raises(BadInputError, match=r"\A[^\n]*_log_sizes\.json:1: [^\n]*; restore it from a copy\Z"):
            read_table(whole, TABLE)
        flip(sizes, place)


@pytest.mark.slow
def test_a_lost_log_entry_is_noticed_even_with_the_sizes_of_the_log(whole: Warehouse) -> None:
    folder = whole.table(TABLE)
    newest = max((folder / "_delta_log").glob("*.json"))
    newest.unlink()
    (folder / "_log_sizes.json").unlink()
    with pytest.raises(BadInputError, match=r"\A[^\n]*_log_sizes\.json: missing[^\n]*newer entries[^\n]*\Z"):
        read_table(whole, TABLE)
    assert any("_log_sizes.json" in line for line in damage(whole))


@pytest.mark.slow
def test_readers_and_upkeep_stop_at_a_changed_page_and_verify_says_what_is_lost(whole: Warehouse) -> None:
    # A file that was not joined, of which a page has another bit.
    path = max(whole.table(TABLE).glob("*.parquet"), key=lambda each: "joined" not in each.name)
    flip(path, 40)
    with pytest.raises(BadInputError, match=rf"{path.name}|CRC"):
        read_table(whole, TABLE)
    [line] = damage(whole)
    assert line.endswith(f"{path.name}: changed since it was committed (5 rows of {TABLE}); restore it from a copy")
    with pytest.raises(BadInputError, match=path.name):
        for day in range(30):
            maintain(whole, keep_releases=0, unused_days=1e6, now=time.time() + 86_400.0 * day)
    with pytest.raises(BadInputError, match=path.name):
        compact_table(whole, TABLE, fewest=1)
    path.unlink()
    [line] = damage(whole)
    assert f"{path.name}: missing, though named in the log (5 rows of {TABLE})" in line
    emptied(log_of(whole)[0])
    emptied(stage_run("judge").staging(whole) / "done.json")
    with pytest.raises(BadInputError, match=rf"{log_of(whole)[0]}: empty.*and 1 more: `trajmill verify`\)\Z"):
        maintain(whole, keep_releases=0, unused_days=1e6, now=0.0)
