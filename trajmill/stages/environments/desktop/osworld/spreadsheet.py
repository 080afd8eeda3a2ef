"""Reads the cells of an xlsx or ods file by address, without a spreadsheet program."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree

_XLSX = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_TARGETS = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_ODS_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_REPEATS = 1000


class SpreadsheetError(Exception):
    """The file is not a readable spreadsheet."""


def read_sheet(content: bytes, number: int) -> dict[str, str]:
    """The cells of a sheet that are not empty.

    Args:
        content: content of an xlsx or ods file.
        number: number of the sheet, from 0.

    Returns:
        By address (`B2`), the stored value; numbers have no needless fraction (`21`, `0.5`).

    Raises:
        SpreadsheetError: the file is damaged, of another kind, or has no such sheet.
    """
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
    """The address of a cell by its row and column, from 0: `A1`, `AB7`."""
    letters, number = "", column + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def _number(text: str) -> str:
    return f"{float(text):.15g}" if text else ""
