import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from trajmill.flows.sql.prompt import run_prompt
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.sql import QueryLimits

pytestmark = pytest.mark.slow


def test_statements_have_several_lines_and_a_wrong_one_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = create_warehouse(tmp_path)

    def said(text: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        run_prompt(warehouse, "csv", QueryLimits())
        return capsys.readouterr()

    out, err = said("SELECT 1\n  AS one;\n\nSELECT nope;\nDROP TABLE steps;\nSELECT 2 AS two")
    assert out == "one\n1\ntwo\n2\n"
    wrong = err.splitlines()
    assert len(wrong) == 2 and "nope" in wrong[0] and "read-only" in wrong[1]
    assert {"steps", "success_by_round"} <= set(said(".tables\n")[0].split())
    assert "screen_before,VARCHAR" in said(".columns steps\n")[0] and ".quit" in said(".what\n")[0]
    assert said(".quit\nSELECT 1;\n")[0] == ""
    lines = said("FROM range(5000);")[0].splitlines()
    assert len(lines) == 1002 and lines[-1] == "only the first 1,000; `trajmill sql QUERY` prints all"


def test_a_terminal_has_a_prompt_and_a_history(tmp_path: Path) -> None:
    create_warehouse(tmp_path / "data")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", "sql", "--root", "data"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"},
    )
    os.close(theirs)
    words = ""
    try:
        # The prompt has to stand before Ctrl-D is typed: a terminal that readline does not hold yet swallows it.
        for expected, answer in (
            ("trajmill> ", b"SELECT 40 +\n"),
            ("...> ", b"2 AS n;\n"),
            ("(1 row)", b""),
            ("trajmill> ", b"\x04"),
        ):
            while expected not in words:
                words += os.read(ours, 4096).decode()
            words = words.partition(expected)[2]
            os.write(ours, answer)
        while process.poll() is None:
            os.read(ours, 4096)
    except OSError:
        pass  # The terminal closes when the process ends.
    finally:
        process.kill()
        os.close(ours)
    assert process.wait() == 0
    assert "2 AS n;" in (tmp_path / "state/trajmill/sql_history").read_text()
