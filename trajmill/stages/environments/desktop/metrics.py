"""The metrics of OSWorld's evaluators that need only files and outputs of commands; each is true or false.

Spreadsheets (xlsx, ods) are read without a spreadsheet program.
"""

from __future__ import annotations

import csv
import io
import operator
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

Metric = Callable[[bytes, Any, Mapping[str, Any]], bool]
"""Compares a result's bytes with what was expected (bytes of a file, or the rules of a `rule`) under options."""

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_XLSX = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_TARGETS = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_ODS_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_REPEATS = 1000


def exact_match(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    if isinstance(expected, bytes):
        return result == expected
    return _text(result).strip() == str(_rules(expected).get("expected", "")).strip()


def file_contains(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    return all(str(wanted) in _text(result) for wanted in _rules(expected).get("expected", ()))


def check_include_exclude(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
    rules, text = _rules(expected), _text(result)
    return all(str(one) in text for one in rules.get("include", ())) and not any(
        str(one) in text for one in rules.get("exclude", ())
    )


def is_in_list(result: bytes, expected: Any, options: Mapping[str, Any]) -> bool:
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
        for rule in options.get("rules", ()):
            match rule.get("type"):
                case "check_cell":
                    cells = read_sheet(result, _sheet_number(rule.get("sheet_idx", 0)))
                    wanted = rule["props"]["value"]
                    cell = cells.get(str(rule["coordinate"]), "")
                    passes = _compares(cell, str(wanted["method"]), wanted["ref"])
                case "sheet_data":
                    actual = read_sheet(result, _sheet_number(rule.get("sheet_idx0", 0)))
                    passes = actual == read_sheet(_file(expected), _sheet_number(rule.get("sheet_idx1", 0)))
                case _:
                    passes = False
            if not passes:
                return False
    except SpreadsheetError:
        return False
    return True


def _compares(actual: str, method: str, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return (method == "eq" and actual == wanted) or (method == "ne" and actual != wanted)
    try:
        return method in _COMPARISONS and bool(getattr(operator, method)(float(actual), float(wanted)))
    except ValueError:
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


_TEXT_METRICS = (exact_match, file_contains, check_include_exclude, is_in_list, compare_text_file)
METRICS: Mapping[str, Metric] = {each.__name__: each for each in (*_TEXT_METRICS, compare_csv, compare_table)}


class SpreadsheetError(Exception): ...


def read_sheet(content: bytes, number: int) -> dict[str, str]:
    """Return the filled cells of a sheet (from 0) by address (`B2`); raises SpreadsheetError for a damaged file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            cells = _ods(archive, number) if "content.xml" in archive.namelist() else _xlsx(archive, number)
            return {address: value for address, value in cells if value}
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, ElementTree.ParseError) as error:
        raise SpreadsheetError(f"no spreadsheet that can be read: {error}") from error


def _parse(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise ValueError(f"{name} is too long")
    return ElementTree.fromstring(archive.read(name))


def _xlsx(archive: zipfile.ZipFile, number: int) -> Iterator[tuple[str, str]]:
    sheets = list(_parse(archive, "xl/workbook.xml").iter(f"{_XLSX}sheet"))
    relations = _parse(archive, "xl/_rels/workbook.xml.rels").iter(f"{_TARGETS}Relationship")
    targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
    target = targets[sheets[number].get(_RELATION)]
    shared = []
    if "xl/sharedStrings.xml" in archive.namelist():
        items = _parse(archive, "xl/sharedStrings.xml").iter(f"{_XLSX}si")
        shared = ["".join(part.text or "" for part in item.iter(f"{_XLSX}t")) for item in items]
    for cell in _parse(archive, f"xl/{target.removeprefix('/xl/')}").iter(f"{_XLSX}c"):
        value = cell.findtext(f"{_XLSX}v") or ""
        match cell.get("t"):
            case "s":
                text = shared[int(value)]
            case "inlineStr":
                text = "".join(part.text or "" for part in cell.iter(f"{_XLSX}t"))
            case "n" | None:
                text = _number(value)
            case _:
                text = value
        yield cell.get("r", ""), text


def _ods(archive: zipfile.ZipFile, number: int) -> Iterator[tuple[str, str]]:
    table = list(_parse(archive, "content.xml").iter(f"{_TABLE}table"))[number]
    row = 0
    for line in table.iter(f"{_TABLE}table-row"):
        rows = int(line.get(f"{_TABLE}number-rows-repeated", "1"))
        column = 0
        for cell in line:
            columns = int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
            if value := _ods_value(cell):
                for below in range(min(rows, _MOST_REPEATS)):
                    for beside in range(min(columns, _MOST_REPEATS)):
                        yield cell_address(row + below, column + beside), value
            column += columns
        row += rows


def _ods_value(cell: ElementTree.Element) -> str:
    if (value := cell.get(f"{_OFFICE}value")) is not None:
        return _number(value)
    return "\n".join("".join(paragraph.itertext()) for paragraph in cell.iter(f"{_ODS_TEXT}p"))


def cell_address(row: int, column: int) -> str:
    """Return the address of a cell by its row and column, from 0: `A1`, `AB7`."""
    letters, number = "", column + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def _number(text: str) -> str:
    return f"{float(text):.15g}" if text else ""
