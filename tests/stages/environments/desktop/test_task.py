import asyncio
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.stages.environments.desktop.osworld_server import NAMESPACE
from tests.stages.environments.desktop.queries import ORIGIN, step
from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.desktop.metrics import METRICS, SpreadsheetError, cell_address, read_sheet
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks, parse_task
from trajmill.stages.environments.desktop.tree import DesktopTree, read_elements

RULE = {"type": "rule", "rules": {"expected": "1"}}
OUTPUT = {"type": "vm_command_line", "command": ["true"]}
FILE = {"type": "vm_file", "path": "/a"}


def said(**parts: Any) -> dict[str, Any]:
    return {"id": "t", "instruction": "Do it.", "snapshot": "x", "source": "", "proxy": False, **parts}


def evaluator(**parts: Any) -> dict[str, Any]:
    return {"evaluator": {"func": "exact_match", "result": OUTPUT, **parts}}


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"config": [step("download", files=[])]}, "config: 'download'"),
        ({"config": [step("execute", command=["a"], until={})]}, "config: execute: 'until'"),
        ({"config": [step("upload_file", files=[{"local_path": "https://x.example/a", "path": "/a"}])]}, "local files"),
        ({"config": [step("execute", command="echo {CLIENT_PASSWORD}", shell=True)]}, "placeholder"),
        (evaluator(func="infeasible"), "evaluator.func: 'infeasible'"),
        (evaluator(result={"type": "enable_do_not_track"}), "evaluator.result: 'enable_do_not_track'"),
        (evaluator(result=FILE, expected={"type": "cloud_file", "path": "u"}), "evaluator.expected: 'cloud_file'"),
        (evaluator(postconfig=[step("googledrive")]), "evaluator.postconfig: 'googledrive'"),
        (evaluator(func=["exact_match"], result=[OUTPUT, OUTPUT]), "differ in length"),
        ({"instruction": 7}, "instruction"),
    ],
)
def test_what_is_not_done_is_refused_by_name_in_one_line(parts: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        parse_task(said(**parts), "tasks/t.json")
    assert named.replace(": '", ": unknown '") in str(refusal.value)
    assert str(refusal.value).startswith("tasks/t.json: ") and "\n" not in str(refusal.value)


def test_a_folder_becomes_queries_whatever_its_file_names(tmp_path: Path) -> None:
    config = [step("launch", command=["a"]), step("sleep", seconds=1)]
    for number in range(10):
        text = json.dumps(said(id=f"task-{number}", config=config, **evaluator(expected=RULE)))
        (tmp_path / f"{9 - number}.json").write_text(text)
    queries = import_tasks(tmp_path, 0.3, ORIGIN)
    assert [query.task for query in queries] == [f"task-{number}" for number in range(10)]
    assert sum(query.split is Split.HELDOUT_SLOTS for query in queries) == 3
    assert import_tasks(tmp_path, 0.3, ORIGIN) == queries
    assert len({query.query_id for query in queries}) == 10


@pytest.mark.parametrize(
    ("contents", "reason"),
    [([], ""), (["no json"], ""), (['{"id": "t"}'], ""), ([json.dumps(said())] * 2, "two tasks have the id 't'")],
)
def test_a_folder_without_tasks_or_with_doubles_is_one_line(tmp_path: Path, contents: list[str], reason: str) -> None:
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.json").write_text(content)
    with pytest.raises(BadInputError, match=reason or None) as refusal:
        import_tasks(tmp_path, 0.0, ORIGIN)
    assert str(tmp_path) in str(refusal.value) and "\n" not in str(refusal.value)


def test_our_own_tasks_are_over_five_programs_have_paths_and_checks_and_can_be_left_out() -> None:
    queries = import_tasks(packaged_tasks(), 0.25, ORIGIN)
    assert len(queries) >= 12
    programs = {app for query in queries for app in query.apps}
    assert programs == {"mousepad", "galculator", "pcmanfm", "libreoffice_calc", "libreoffice_writer"}
    assert all(query.path[-1].operation == "finish" and query.goal != "{}" for query in queries)
    assert {query.split for query in queries} == {Split.TRAIN, Split.HELDOUT_SLOTS}
    alone = DesktopSpec(packaged=False)
    assert not asyncio.run(alone.own_queries(0, ORIGIN)).queries
    assert len(asyncio.run(DesktopSpec().own_queries(0, ORIGIN)).queries) == len(queries)
    assert "packaged" not in DesktopSpec().identity() and alone.identity() != DesktopSpec().identity()


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


def test_a_cell_of_a_sheet() -> None:
    for method, wanted, passes in (("eq", 950, True), ("lt", 951, True), ("gt", 950, False), ("eq", "950", True)):
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


SCREEN = Size(400, 300)
SHOWN = "showing visible enabled sensitive"


def node(tag: str, name: str, place: tuple[int, int, int, int], inner: str = "", states: str = SHOWN) -> str:
    said = "".join(f' st:{state}="true"' for state in states.split())
    left, top, width, height = place
    where = f' cp:screencoord="({left}, {top})" cp:size="({width}, {height})"'
    return f'<{tag} name="{name}"{said}{where}>{inner}</{tag}>'


def window(inner: str, place: tuple[int, int, int, int] = (0, 0, 200, 200)) -> str:
    """The window with the keyboard."""
    return node("frame", "W", place, inner, SHOWN + " active")


def read(*programs: str) -> DesktopTree:
    names = "".join(f' xmlns:{short}="{NAMESPACE}/{long}"' for short, long in (("st", "state"), ("cp", "component")))
    applications = "".join(f'<application name="app{n}">{inside}</application>' for n, inside in enumerate(programs))
    return read_elements(f"<desktop-frame{names}>{applications}</desktop-frame>", SCREEN)


def ids(tree: DesktopTree) -> list[str]:
    return [element.element_id for element in tree.elements[1:]]


def test_ids_name_the_menus_around_an_element_and_count_what_is_alike() -> None:
    entries = node("menu-item", "Save", (0, 20, 50, 20)) + node("menu-item", "Save", (0, 40, 50, 20))
    bar = node("menu-bar", "", (0, 0, 100, 20), node("menu", "File", (0, 0, 50, 20), entries))
    assert ids(read(window(bar, place=(0, 0, 100, 100)))) == [
        "app0/menu:File",
        "app0/File/menu_item:Save",
        "app0/File/menu_item:Save#2",
    ]


def test_what_is_hidden_off_screen_or_behind_the_front_window_is_left_out() -> None:
    behind = node("push-button", "Behind", (10, 10, 20, 20)) + node("push-button", "Beside", (200, 10, 20, 20))
    inside = (
        node("push-button", "Hidden", (20, 20, 20, 20), states="enabled")
        + node("push-button", "Off", (20, 400, 20, 20))
        + node("push-button", "Cut", (90, 290, 20, 40))
    )
    tree = read(
        node("frame", "Back", (0, 0, 300, 100), behind),
        node("frame", "Front", (0, 0, 150, 300), inside, SHOWN + " active"),
    )
    assert ids(tree) == ["app0/button:Beside", "app1/button:Cut"]
    assert tree.elements[-1].bounds == Box(90, 290, 110, 300)


def test_what_is_scrolled_out_of_its_pane_is_left_out_or_cut_but_for_an_open_menu() -> None:
    icons = "".join(node("icon", name, (10, top, 40, 40)) for name, top in (("In", 20), ("Half", 80), ("Out", 140)))
    pane = node("scroll-pane", "", (0, 10, 100, 100), node("layered-pane", "", (0, 10, 100, 100), icons))
    tree = read(node("frame", "Files", (0, 0, 200, 200), pane, SHOWN + " active"))
    assert ids(tree) == ["app0/icon:In", "app0/icon:Half"]
    assert tree.elements[-1].bounds == Box(10, 80, 50, 110)

    # A menu opens beyond the pane that its bar is in.
    menu = node("menu", "File", (0, 20, 50, 20), node("menu-item", "Save", (0, 40, 80, 20)))
    pane = node("scroll-pane", "", (0, 20, 100, 20), node("menu-bar", "", (0, 20, 100, 20), menu))
    assert ids(read(node("frame", "W", (0, 0, 100, 100), pane))) == ["app0/menu:File", "app0/File/menu_item:Save"]


def test_a_modal_dialog_locks_the_rest_of_its_program() -> None:
    rest = node("push-button", "Rest", (300, 10, 20, 20))
    dialog = node("dialog", "Sure?", (0, 0, 100, 100), node("push-button", "Yes", (10, 10, 20, 20)))
    modal = dialog.replace(' st:showing="true"', ' st:showing="true" st:active="true" st:modal="true"', 1)
    other = node("frame", "Other", (200, 200, 100, 50), node("push-button", "Free", (210, 210, 20, 20)))
    assert ids(read(node("frame", "Main", (0, 0, 400, 300), rest) + modal, other)) == [
        "app0/Sure?/button:Yes",
        "app1/button:Free",
    ]


def test_fields_take_their_label_from_beside_them_and_their_value_from_within() -> None:
    entry = node("text", "", (60, 10, 40, 20), "b.txt", SHOWN + " editable focused")
    row = node("panel", "", (0, 10, 100, 20), node("label", "Name:", (0, 10, 50, 20)) + entry)
    field = read(window(row, place=(0, 0, 100, 100))).elements[-1]
    assert field[:3] == ("text_field", "Name:", Box(60, 10, 100, 30))
    assert field[3:] == (("clickable", "focused", "editable"), "b.txt", "app0/text_field:Name:")


def test_states_say_what_can_be_done() -> None:
    parts = node("push-button", "No", (0, 0, 10, 10), states="showing visible")
    parts += node("check-box", "Wrap", (0, 10, 10, 10), states=SHOWN + " checked")
    parts += node("table-cell", "A1", (0, 30, 10, 10), states=SHOWN + " selected")
    parts += node("password-text", "Key", (0, 20, 10, 10), "", SHOWN + " editable")
    found = {element.text: element.states for element in read(window(parts)).elements}
    states = (("disabled",), ("clickable", "checked"), ("clickable", "editable", "password"))
    assert tuple(found[name] for name in ("No", "Wrap", "Key")) == states
    assert "selected" in found["A1"]


def test_a_row_of_a_list_is_one_element_and_a_cell_of_a_sheet_has_its_address() -> None:
    label = node("label", "Home", (20, 0, 50, 20))
    row = node("list-item", "", (0, 0, 100, 20), node("panel", "", (0, 0, 100, 20), label))
    cell = node("table-cell", "B7", (0, 40, 20, 20), "21", SHOWN + " editable")
    found = [(*element[:2], element.value) for element in read(window(row + cell)).elements[1:]]
    assert found == [("list_item", "Home", ""), ("cell", "B7", "21")]


def test_nonsense_is_a_failure_of_the_environment_and_an_empty_desktop_has_a_title_alone() -> None:
    for text in ("", "<a", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'):
        with pytest.raises(EnvironmentFailure):
            read_elements(text, SCREEN)
    assert read() == DesktopTree((UIElement("heading", "", Box(0, 0, 400, 1), ("title",)),), "")
