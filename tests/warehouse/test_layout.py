import errno
import json
import os
from pathlib import Path

import pytest

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import StageRun, checked_name, create_warehouse, open_warehouse


def test_a_warehouse_is_made_once_and_a_write_raises_an_older_schema_version(tmp_path: Path) -> None:
    made = create_warehouse(tmp_path / "new" / "warehouse")
    assert create_warehouse(made.root) == open_warehouse(made.root) == made
    assert json.loads((made.root / "warehouse.json").read_text()) == {"schema_version": SCHEMA_VERSION}
    assert made.table("steps") == made.root / "tables" / "steps"
    with pytest.raises(KeyError):
        made.table("stepz")
    create_warehouse(tmp_path)
    (tmp_path / "warehouse.json").write_text('{"schema_version": 0}')
    open_warehouse(tmp_path)
    assert json.loads((tmp_path / "warehouse.json").read_text())["schema_version"] == 0
    create_warehouse(tmp_path)
    assert json.loads((tmp_path / "warehouse.json").read_text())["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema_version": "x"}', "\x00"])
def test_a_damaged_version_file_gives_one_error_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "warehouse.json").write_text(text)
    with pytest.raises(BadInputError, match=r"\A[^\n]*warehouse\.json:1: not a warehouse's version file"):
        open_warehouse(tmp_path)


def test_what_is_no_warehouse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no warehouse"):
        open_warehouse(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be written"):
        create_warehouse(tmp_path / "file")
    for name in ("100%", "why?", "a*", "[1]"):
        with pytest.raises(BadInputError, match="choose another folder"):
            create_warehouse(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_folder_that_cannot_be_written_gives_one_error_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("trajmill.warehouse.store.base.write_bytes", refuse)
    line = r"\Awarehouse [^\n]+: cannot be written \(Read-only file system\); choose [^\n]+\Z"
    with pytest.raises(BadInputError, match=line):
        create_warehouse(tmp_path)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "a\n", "x" * 101, "a%2fb", "ü"])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="cannot be part of a file name"):
        checked_name(name)
    with pytest.raises(BadInputError):
        StageRun(run_id=name, round=1, stage="rollout")
