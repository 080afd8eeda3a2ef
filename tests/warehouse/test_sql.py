import csv
import io
import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.sql import QueryLimits, answer_sql, format_rows, run_sql
from trajmill.warehouse.views import refresh_views


@pytest.fixture(scope="module")
def filled(empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = open_warehouse(
        Path(shutil.copytree(empty_warehouse, tmp_path_factory.mktemp("filled") / "a warehouse"))
    )
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(3, stage_run("judge")))
    refresh_views(warehouse)
    return warehouse


@pytest.mark.slow
def test_a_select_is_answered_what_there_is_can_be_looked_up_and_an_answer_is_cut_off(filled: Warehouse) -> None:
    for query in ("SELECT count(*) AS n FROM step_verdicts", "WITH a AS (SELECT 3 AS n) FROM a"):
        assert run_sql(filled, query).to_pylist() == [{"n": 3}]
    assert run_sql(filled, "SELECT 1 AS a, 2 AS a").to_pylist() == [{"a": 1, "a_1": 2}]
    assert "success_by_round" in run_sql(filled, "SHOW TABLES").column(0).to_pylist()
    assert "index" in run_sql(filled, "DESCRIBE step_verdicts").column(0).to_pylist()
    assert format_rows(run_sql(filled, "EXPLAIN SELECT * FROM step_verdicts"), "table").count("\n") > 3
    cut = answer_sql(filled, "SELECT * FROM range(10000)", QueryLimits(rows=7))
    assert (cut.rows.num_rows, cut.is_whole) == (7, False)
    whole = answer_sql(filled, "SELECT * FROM range(7)", QueryLimits(rows=7))
    assert (whole.rows.num_rows, whole.is_whole) == (7, True)
    empty = answer_sql(filled, "SELECT 1 AS one WHERE false", QueryLimits(rows=7))
    assert (empty.rows.column_names, empty.rows.num_rows) == (["one"], 0)


@pytest.mark.parametrize("read_only", [False, True])
def test_the_user_may_have_the_views_open(filled: Warehouse, read_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled.root)
    query = "SELECT count(*) AS n FROM step_verdicts"
    with duckdb.connect("trajmill.duckdb", read_only=read_only) as mine:
        assert run_sql(filled, query).to_pylist() == [{"n": 3}]
        assert mine.execute(query).fetchall() == [(3,)]


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE x (i INTEGER)",
        "INSERT INTO step_verdicts SELECT * FROM step_verdicts",
        "DELETE FROM step_verdicts",
        "DROP VIEW step_verdicts",
        "COPY (SELECT 1) TO '{root}/tables/step_verdicts/new.parquet'",
        "EXPORT DATABASE '{root}/copy'",
        "ATTACH '{root}/other.duckdb'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "PRAGMA enable_profiling",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_everything_else_is_refused_with_one_line_and_without_a_trace(filled: Warehouse, query: str) -> None:
    before = sorted(filled.root.rglob("*"))
    with pytest.raises(BadInputError, match=r"\Aquery: [^\n]+; give [^\n]+\Z"):
        run_sql(filled, query.format(root=filled.root))
    assert sorted(filled.root.rglob("*")) == before


@pytest.mark.slow
def test_files_outside_the_warehouse_cannot_be_read(filled: Warehouse, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for source in (f"read_csv('{secret}')", f"'{secret}'", f"'{filled.root}/../secret.csv'", "glob('/*')"):
        with pytest.raises(BadInputError, match="Permission Error"):
            run_sql(filled, f"SELECT * FROM {source}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM step_verdict", 'step_verdict does not exist.*Did you mean "step_verdicts".*SHOW TABLES'),
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM step_verdicts", "nothing"),
    ],
)
def test_a_wrong_query_gives_one_error_line(filled: Warehouse, query: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        run_sql(filled, query)
    assert "\n" not in str(caught.value)


ROWS = pa.table(
    {
        "text": ['a "b"\n', None],
        "number": [1, 22],
        "share": [0.123456789, float("nan")],
        "flag": [True, False],
        "list": [[{"x": 1}], []],
        "raw": [b"\x00\xff", b""],
    }
)


def test_json_and_csv_are_complete_and_a_table_is_aligned_without_control_characters() -> None:
    assert json.loads(format_rows(ROWS, "json")) == [
        {"text": 'a "b"\n', "number": 1, "share": 0.123456789, "flag": True, "list": [{"x": 1}], "raw": "AP8="},
        {"text": None, "number": 22, "share": None, "flag": False, "list": [], "raw": ""},
    ]
    assert json.loads(format_rows(ROWS.slice(0, 0), "json")) == []
    header, first, second = csv.reader(io.StringIO(format_rows(ROWS, "csv")))
    assert header == ROWS.column_names
    assert first == ['a "b"\n', "1", "0.123456789", "true", '[{"x": 1}]', "AP8="]
    assert second == ["", "22", "", "false", "[]", ""]
    rows = pa.table({"name": ["\x1b[31mred", "x" * 100], "n": [5, 1234]})
    assert format_rows(rows, "table").splitlines() == [
        "name" + " " * 61 + "n",
        "?[31mred" + " " * 57 + "5",
        "x" * 59 + "…  1234",
        "(2 rows)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "limits", "words"),
    [
        ("SELECT count(*) FROM range(1000000000000)", QueryLimits(seconds=0.2), "longer than 0.2 s"),
        ("SELECT list(range) FROM range(100000000)", QueryLimits(megabytes=64), "more than 64 MB"),
        ("SELECT repeat('x', 100000) FROM range(100000)", QueryLimits(megabytes=16), "more than 16 MB"),
    ],
)
def test_a_query_is_stopped_at_its_limits(filled: Warehouse, query: str, limits: QueryLimits, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        answer_sql(filled, query, limits)
