"""Commands that only read, on a warehouse that belongs to somebody else."""

import ctypes
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.synthetic_run import RUN
from trajmill.flows.cli.app import run
from trajmill.flows.new_run import IDENTITY_FILE
from trajmill.warehouse.layout import Warehouse, open_warehouse

pytestmark = pytest.mark.slow

_VERSION_3 = 0x20080522
_DAC_OVERRIDE = 1
"""The capability with which root writes whatever the permissions say; see capabilities(7)."""


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write below a folder within the block; what this thread does then is refused as for other users."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with _without_override():
            yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def _without_override() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    thread, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(thread, sets) == 0
    effective = sets[0]
    sets[0] &= ~(1 << _DAC_OVERRIDE)
    assert libc.capset(thread, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(thread, sets) == 0


def test_who_may_only_read_a_warehouse_sees_its_results(
    run_warehouse: Warehouse,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    root = Path(shutil.copytree(run_warehouse.root, tmp_path_factory.mktemp("copy") / "warehouse"))
    begun = root / "runs" / RUN / IDENTITY_FILE
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.write_text("{}")
    # Another version wrote it, or nobody yet.
    open_warehouse(root).database.unlink(missing_ok=True)
    with read_only(root):
        with pytest.raises(PermissionError):
            (root / "new").touch()
        for command in (["status"], ["releases", "list"], ["sql", "SELECT count(*) FROM rounds"]):
            assert run([*command, "--root", str(root)]) == 0, capsys.readouterr().err
        assert run(["report", "--root", str(root)]) == 1
        refused = capsys.readouterr().err
        assert run(["report", "--root", str(root), "--out", str(tmp_path / "page.html")]) == 0
    assert refused == (
        f"{root}/runs/{RUN}/report.html cannot be written (Permission denied); "
        "name another file: `trajmill report --out FILE`\n"
    )
    assert RUN in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"], "nothing was made where the user stands"
