import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.bucket_server import environment_for, new_bucket
from tests.built_once import copy_of
from tests.flows.command_line import CommandLine
from tests.flows.synthetic_run import RUN, write_run
from tests.warehouse.samples import commit_rounds
from tests.warehouse.test_releases import export_and_release
from trajmill.flows.cli.app import run
from trajmill.flows.new_run import IDENTITY_FILE
from trajmill.flows.viewer.app import viewer_app
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse, sole_worker
from trajmill.warehouse.read import read_table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a warehouse with twelve rounds and a release; to be copied."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("released") / "root")
    commit_rounds(warehouse, 12, 2)
    export_and_release(warehouse, "first")
    return warehouse.root


@pytest.fixture
def warehouse(released: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(copy_of(released, tmp_path / "root"))


def test_unused_files_are_deleted_and_small_ones_joined(warehouse: Warehouse, command: CommandLine) -> None:
    left = warehouse.table("step_verdicts") / "r0099-run-a-judge-00000.parquet"
    left.write_bytes(bytes(100_000))
    os.utime(left, (0, 0))
    listed = "tables/step_verdicts/r0099-run-a-judge-00000.parquet\n1 unused files, 0.1 MB"
    assert command.said("vacuum", "--dry-run", "--root", warehouse.root) == f"{listed}\n" and left.exists()
    assert command.said("vacuum", "--root", warehouse.root) == f"{listed}: deleted\n" and not left.exists()
    assert command.said("vacuum", "--days", "0", "--root", warehouse.root) == "0 unused files, 0.0 MB: deleted\n"
    assert command.said("compact", "--root", warehouse.root) == "step_verdicts: 12 files joined into 1\n"
    assert command.said("compact", "--root", warehouse.root) == "no table has small files to join\n"


def test_each_damaged_file_is_named(
    warehouse: Warehouse, command: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.said("verify", "--root", warehouse.root) == "everything is whole\n"
    (warehouse.release("first") / "README.md").write_text("# cart\n")
    next(warehouse.table("step_verdicts").glob("*.parquet")).unlink()
    assert run(["verify", "--root", str(warehouse.root)]) == 1
    lines = capsys.readouterr().out.splitlines()
    for said in ("damaged files: 2", "(2 rows of step_verdicts)", "README.md: changed since release first was made"):
        assert any(said in line for line in lines)


def test_releases_are_listed_and_dropped_even_with_a_damaged_manifest(
    warehouse: Warehouse, command: CommandLine
) -> None:
    root, name = ("--root", warehouse.root), "run-a-r0001"
    assert command.said("releases", "list", *root).startswith("first  2026-11-20T00:00:00Z  round 1  ")
    export_and_release(warehouse, name)
    (warehouse.release(name) / "manifest.json").write_text("{")
    refused = command.refused("releases", "list", *root)
    assert f"or drop the release (`trajmill releases drop {name}`)" in refused
    for each in (name, "first"):
        with sole_worker(warehouse, "run-a"):
            assert "is at work on it" in command.refused("releases", "drop", each, *root)
        assert f"{each} is dropped" in command.said("releases", "drop", each, *root)
    assert command.said("releases", "list", *root) == ""
    assert command.refused("releases", "drop", name, *root).startswith(f"there is no release {name!r}; ")


_VERSION_3 = 0x20080522
_DAC_OVERRIDE = 1
"""The capability with which root writes whatever the permissions say; see capabilities(7)."""


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write below a folder within the block; what this thread does then is refused as for other users."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    libc, thread, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(thread, sets) == 0
    effective = sets[0]
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        sets[0] &= ~(1 << _DAC_OVERRIDE)
        assert libc.capset(thread, sets) == 0
        yield
    finally:
        sets[0] = effective
        assert libc.capset(thread, sets) == 0
        for path, mode in modes.items():
            path.chmod(mode)


def test_who_may_only_read_a_warehouse_sees_its_results(
    run_warehouse: Warehouse,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    command: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    root = copy_of(run_warehouse.root, tmp_path_factory.mktemp("copy") / "warehouse")
    begun = root / "runs" / RUN / IDENTITY_FILE
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.write_text("{}")
    # Another version wrote it, or nobody yet.
    open_warehouse(root).database.unlink(missing_ok=True)
    with read_only(root):
        with pytest.raises(PermissionError):
            (root / "new").touch()
        for words in (["status"], ["releases", "list"], ["sql", "SELECT count(*) FROM rounds"]):
            command.said(*words, "--root", root)
        refused = command.refused("report", "--root", root)
        command.said("report", "--root", root, "--out", tmp_path / "page.html")
    assert refused == (
        f"{root}/runs/{RUN}/report.html cannot be written (Permission denied); "
        "name another file: `trajmill report --out FILE`\n"
    )
    assert RUN in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"], "nothing was made where the user stands"


BOTH = (
    ("sql", "SELECT round, count(*) AS steps FROM steps GROUP BY 1 ORDER BY 1"),
    ("sql", "SELECT split, success_rate FROM success_by_round ORDER BY ALL"),
    ("show", "{trajectory}"),
    ("releases", "list"),
    ("vacuum", "--dry-run"),
    ("compact",),
    ("releases", "drop", "first"),
    ("vacuum", "--days", "0"),
)
"""In the order in which they are called."""


@pytest.fixture(scope="module")
def roots(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The same run and release in a folder and in a bucket."""
    folder = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in environment_for(s3_endpoint, folder / "caches").items():
            environment.setenv(name, value)
        places = (str(folder / "root"), new_bucket(s3_endpoint))
        for place in places:
            warehouse = create_warehouse(place)
            write_run(warehouse, rounds=1)
            export_and_release(warehouse, "first")
        yield places


def answer(command: CommandLine, root: str, words: tuple[str, ...]) -> str:
    out = command.said(*words, "--root", root).replace(root, "ROOT")
    # The sizes of tables in Parquet depend on the names of files and on times.
    return out.partition(" MB")[0].rpartition(" ")[0] if "MB" in out else out


def test_commands_say_the_same(roots: tuple[str, str], command: CommandLine) -> None:
    folder, bucket = roots
    trajectory = read_table(open_warehouse(Path(folder)), "trajectories", ["trajectory_id"])["trajectory_id"][0].as_py()
    for words in BOTH:
        filled = tuple(word.format(trajectory=trajectory) for word in words)
        assert answer(command, bucket, filled) == answer(command, folder, filled), words


def test_the_viewer_shows_the_same(roots: tuple[str, str]) -> None:
    names = ["run_id", "trajectory_id", "screen_before"]
    [row] = read_table(open_warehouse(Path(roots[0])), "steps", names).slice(0, 1).to_pylist()
    shown = []
    for root in roots:
        viewer = TestClient(viewer_app(open_warehouse(root)), base_url="http://localhost")
        pages = ("trajectories", f"trajectories/{row['run_id']}/{row['trajectory_id']}")
        answers = [viewer.get(f"/api/{page}") for page in (*pages, f"screens/{row['screen_before']}")]
        assert {answer.status_code for answer in answers} == {200}
        # The two warehouses were written one after the other.
        shown.append([re.sub(rb'"written_at":"[^"]*"', b"", answer.content) for answer in answers])
    assert shown[0] == shown[1]


def test_the_report_is_written_on_this_machine(roots: tuple[str, str], command: CommandLine) -> None:
    assert "<html" in Path(command.said("report", "--root", roots[1]).strip()).read_text()
