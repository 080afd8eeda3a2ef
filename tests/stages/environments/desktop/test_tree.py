import pytest

from tests.stages.environments.desktop.osworld_server import NAMESPACE
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.desktop.tree import DesktopTree, read_elements

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


def test_the_first_element_is_the_title_of_the_window_with_the_keyboard() -> None:
    button = node("push-button", "OK", (10, 40, 30, 20))
    tree = read(node("frame", "Letter", (0, 20, 100, 80), button, SHOWN + " active"))
    assert tree.elements[0] == UIElement("heading", "Letter", Box(0, 20, 100, 21), ("title",))
    assert tree.elements[1] == UIElement("button", "OK", Box(10, 40, 40, 60), ("clickable",), "", "app0/button:OK")
    assert tree.app == "app0"


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


def test_what_is_scrolled_out_of_its_pane_is_left_out_or_cut() -> None:
    icons = "".join(node("icon", name, (10, top, 40, 40)) for name, top in (("In", 20), ("Half", 80), ("Out", 140)))
    pane = node("scroll-pane", "", (0, 10, 100, 100), node("layered-pane", "", (0, 10, 100, 100), icons))
    tree = read(node("frame", "Files", (0, 0, 200, 200), pane, SHOWN + " active"))
    assert ids(tree) == ["app0/icon:In", "app0/icon:Half"]
    assert tree.elements[-1].bounds == Box(10, 80, 50, 110)


def test_a_menu_opens_beyond_the_pane_that_its_bar_is_in() -> None:
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


@pytest.mark.parametrize("text", ["", "<a", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_nonsense_is_a_failure_of_the_environment(text: str) -> None:
    with pytest.raises(EnvironmentFailure):
        read_elements(text, SCREEN)


def test_an_empty_desktop_has_a_title_alone() -> None:
    assert read() == DesktopTree((UIElement("heading", "", Box(0, 0, 400, 1), ("title",)),), "")
