import io
import zipfile
from typing import Any

import pytest

from trajmill.stages.environments.desktop.metrics import METRICS, SpreadsheetError, cell_address, read_sheet

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def xlsx(cells: str) -> bytes:
    sheet = f'<sheet name="One" sheetId="1" r:id="rId7" xmlns:r="{_RELATIONS}"/>'
    target = '<Relationship Id="rId7" Target="worksheets/sheet1.xml"/>'
    rows = f"<sheetData><row>{cells}</row></sheetData>"
    return zipped(
        **{
            "xl/workbook.xml": f'<workbook xmlns="{_MAIN}"><sheets>{sheet}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}">{target}</Relationships>',
            "xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}"><si><t>Rent</t></si></sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}">{rows}</worksheet>',
        }
    )


def ods(rows: str) -> bytes:
    spaces = ((short, f"urn:oasis:names:tc:opendocument:xmlns:{short}:1.0") for short in ("table", "office", "text"))
    names = "".join(f' xmlns:{short}="{name}"' for short, name in spaces)
    content = f"<office:body{names}><table:table>{rows}</table:table></office:body>"
    return zipped(**{"content.xml": content})


RENT = '<c r="A1" t="s"><v>0</v></c><c r="B1"><v>950.0</v></c><c r="C1" t="inlineStr"><is><t>due</t></is></c>'


@pytest.mark.parametrize(
    ("metric", "result", "expected", "options", "passes"),
    [
        ("exact_match", b"408\n", {"expected": "408"}, {}, True),
        ("exact_match", b"4081", {"expected": "408"}, {}, False),
        ("exact_match", b"\x00a", b"\x00a", {}, True),
        ("file_contains", b"Dear Ada", {"expected": ["Dear", "Ada"]}, {}, True),
        ("file_contains", b"Dear", {"expected": ["Dear", "Ada"]}, {}, False),
        ("check_include_exclude", b"coffee", {"include": ["coffee"], "exclude": ["tea"]}, {}, True),
        ("check_include_exclude", b"coffee tea", {"include": ["coffee"], "exclude": ["tea"]}, {}, False),
        ("is_in_list", b"a\nInvoices\n", {"expected": "Invoices"}, {}, True),
        ("is_in_list", b"Invoices2\n", {"expected": "Invoices"}, {}, False),
        ("compare_text_file", b"a\r\nb", b"a\nb", {}, True),
        ("compare_text_file", b"a b\n", b"a  b", {"ignore_blanks": True}, True),
        ("compare_text_file", b"A", b"a", {}, False),
        ("compare_text_file", b"A", b"a", {"ignore_case": True}, True),
        ("compare_csv", b'"a",1\n', b"a,1\n", {}, True),
        ("compare_csv", b"A , 1\n", b"a,1\n", {"strict": False}, True),
        ("compare_csv", b"a,2\n", b"a,1\n", {"strict": False}, False),
    ],
)
def test_each_metric_compares_as_its_options_say(
    metric: str, result: bytes, expected: Any, options: dict[str, Any], passes: bool
) -> None:
    assert METRICS[metric](result, expected, options) is passes


@pytest.mark.parametrize(
    ("method", "wanted", "passes"), [("eq", 950, True), ("lt", 951, True), ("gt", 950, False), ("eq", "950", True)]
)
def test_a_cell_of_a_sheet(method: str, wanted: Any, passes: bool) -> None:
    look = {"type": "check_cell", "sheet_idx": 0, "coordinate": "B1"}
    rules = {"rules": [look | {"props": {"value": {"method": method, "ref": wanted}}}]}
    assert METRICS["compare_table"](xlsx(RENT), None, rules) is passes
    assert METRICS["compare_table"](b"no spreadsheet", None, rules) is False


def test_sheets_are_compared_cell_by_cell_whatever_their_format() -> None:
    rows = (
        '<table:table-row><table:table-cell office:value-type="string"><text:p>Rent</text:p></table:table-cell>'
        '<table:table-cell office:value="950"><text:p>950 EUR</text:p></table:table-cell>'
        "<table:table-cell><text:p>due</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-repeated="16381"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048575"><table:table-cell/></table:table-row>'
    )
    rules = {"rules": [{"type": "sheet_data", "sheet_idx0": "RI0", "sheet_idx1": "EI0"}]}
    assert read_sheet(ods(rows), 0) == read_sheet(xlsx(RENT), 0) == {"A1": "Rent", "B1": "950", "C1": "due"}
    assert METRICS["compare_table"](ods(rows), xlsx(RENT), rules) is True
    assert METRICS["compare_table"](ods(rows), xlsx(RENT.replace("950.0", "951")), rules) is False


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + b"\0" * 18, xlsx("<c"), xlsx('<c r="A1" t="s"><v>9</v></c>')])
def test_a_damaged_file_is_no_sheet(content: bytes) -> None:
    with pytest.raises(SpreadsheetError):
        read_sheet(content, 0)
    places = ((0, 0), (6, 25), (9, 26), (0, 701), (0, 702))
    assert [cell_address(*place) for place in places] == ["A1", "Z7", "AA10", "ZZ1", "AAA1"]
