import io
import os
import re
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
    command = f'{sys.executable} -c "from trajmill.flows.cli.app import main; main()" sql --root data'
    said = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        cwd=tmp_path,
        input="SELECT 40 +\n2 AS n;\n.quit\n",
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert re.search(r"trajmill> .*\.\.\.> .*\(1 row\).*trajmill> ", said, re.DOTALL)
    assert "2 AS n;" in (tmp_path / "state/trajmill/sql_history").read_text()
