"""The metrics of OSWorld's evaluators that need only files and the output of commands; each is true or false."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from trajmill.stages.environments.desktop.osworld.spreadsheet import SpreadsheetError, read_sheet

Metric = Callable[[bytes, Any, Mapping[str, Any]], bool]
"""Compares a result's bytes with what was expected (bytes of a file, or the rules of a `rule`) under options."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda actual, wanted: actual == wanted,
    "ne": lambda actual, wanted: actual != wanted,
    "lt": lambda actual, wanted: actual < wanted,
    "le": lambda actual, wanted: actual <= wanted,
    "gt": lambda actual, wanted: actual > wanted,
    "ge": lambda actual, wanted: actual >= wanted,
}


def exact_match(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """The whole text, or the whole file, is the expected one."""
    if isinstance(expected, bytes):
        return result == expected
    return _text(result).strip() == str(_rules(expected).get("expected", "")).strip()


def file_contains(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """Every expected text is in the file."""
    return all(str(wanted) in _text(result) for wanted in _rules(expected).get("expected", ()))


def check_include_exclude(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """Every text of `include` is there and none of `exclude`."""
    rules, text = _rules(expected), _text(result)
    return all(str(one) in text for one in rules.get("include", ())) and not any(
        str(one) in text for one in rules.get("exclude", ())
    )


def is_in_list(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """One line of the output is the expected one."""
    return str(_rules(expected).get("expected", "")) in _text(result).splitlines()


def compare_text_file(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """Two text files are equal, up to blanks with `ignore_blanks` and up to case with `ignore_case`."""
    texts = [_text(result), _text(_file(expected))]
    if options.get("ignore_blanks"):
        texts = [" ".join(text.split()) for text in texts]
    if options.get("ignore_case"):
        texts = [text.lower() for text in texts]
    return texts[0] == texts[1]


def compare_csv(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """Two CSV files hold the same cells; with `strict` false, up to case and surrounding blanks."""
    rows = [list(csv.reader(io.StringIO(_text(one)))) for one in (result, _file(expected))]
    if options.get("strict", True) is False:
        rows = [[[cell.strip().lower() for cell in row] for row in table] for table in rows]
    return rows[0] == rows[1]


def compare_table(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    """A spreadsheet (xlsx, ods) passes every rule: `check_cell` looks at one cell, `sheet_data` compares two sheets."""
    try:
        return all(_table_rule(result, expected, rule) for rule in options.get("rules", ()))
    except SpreadsheetError:
        return False


def _table_rule(result: bytes, expected: Any, rule: Mapping[str, Any]) -> bool:
    match rule.get("type"):
        case "check_cell":
            cells = read_sheet(result, _sheet_number(rule.get("sheet_idx", 0)))
            wanted = rule["props"]["value"]
            return _compares(cells.get(str(rule["coordinate"]), ""), str(wanted["method"]), wanted["ref"])
        case "sheet_data":
            actual = read_sheet(result, _sheet_number(rule.get("sheet_idx0", 0)))
            return actual == read_sheet(_file(expected), _sheet_number(rule.get("sheet_idx1", 0)))
        case _:
            return False


def _compares(actual: str, method: str, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return (method == "eq" and actual == wanted) or (method == "ne" and actual != wanted)
    try:
        return _COMPARISONS[method](float(actual), float(wanted))
    except (KeyError, ValueError):
        return False


def _sheet_number(named: Any) -> int:
    """OSWorld writes 0, `RI0` or `EI0` for the first sheet."""
    return int(str(named).removeprefix("RI").removeprefix("EI"))


def _rules(expected: Any) -> Mapping[str, Any]:
    return expected if isinstance(expected, Mapping) else {}


def _file(expected: Any) -> bytes:
    return expected if isinstance(expected, bytes) else b""


def _text(content: bytes) -> str:
    return content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")


METRICS: Mapping[str, Metric] = {
    "exact_match": exact_match,
    "file_contains": file_contains,
    "check_include_exclude": check_include_exclude,
    "is_in_list": is_in_list,
    "compare_text_file": compare_text_file,
    "compare_csv": compare_csv,
    "compare_table": compare_table,
}
"""The metrics, by their names in OSWorld's task files."""
