"""Commands that only read, on a warehouse that belongs to somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.synthetic_run import RUN
from tests.read_only import read_only
from trajmill.flows.cli.app import run
from trajmill.warehouse.layout import Warehouse

pytestmark = pytest.mark.slow


def test_who_may_only_read_a_warehouse_sees_its_results(
    run_warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = run_warehouse.root
    # What another version has written, or nobody yet.
    run_warehouse.database.unlink(missing_ok=True)
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
