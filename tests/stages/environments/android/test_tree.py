from __future__ import annotations

from trajmill.schemas.actions import Swipe
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.android.screen import ListEnds, ScreenContext, read_tree

WINDOW = ScreenContext(Size(1080, 2400), "Settings", "com.android.launcher3", None)


def node(kind: str, bounds: str, *children: str, **attributes: str) -> str:
    given = {"class": kind, "bounds": bounds, "package": "com.android.settings", "enabled": "true", **attributes}
    text = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in given.items())
    return f"<node {text}>{''.join(children)}</node>"


def text(words: str, bounds: str, **attributes: str) -> str:
    return node("android.widget.TextView", bounds, text=words, **attributes)


def read(*nodes: str, window: ScreenContext = WINDOW) -> tuple[UIElement, ...]:
    elements = read_tree(f'<hierarchy rotation="0">{"".join(nodes)}</hierarchy>', window)
    assert elements is not None
    return elements


ROW = node(
    "android.widget.LinearLayout",
    "[0,400][1080,600]",
    text("Wi-Fi", "[40,420][400,480]", resource_id="android:id/title"),
    text("Connected", "[40,490][400,540]"),
    node("android.widget.Switch", "[900,440][1040,560]", checkable="true", checked="true"),
    clickable="true",
    resource_id="com.android.settings:id/row",
)
LIST = "androidx.recyclerview.widget.RecyclerView"


def test_a_row_with_a_switch_is_one_switch_with_its_texts() -> None:
    title = text("Network", "[40,100][600,200]", resource_id="com.android.settings:id/action_bar_title")
    rows = node(LIST, "[0,300][1080,2400]", ROW, scrollable="true", resource_id="com.android.settings:id/list")
    assert read(rows, title) == (
        UIElement(
            "heading", "Network", Box(40, 100, 600, 200), ("title",), "", "com.android.settings:id/action_bar_title"
        ),
        UIElement(
            "list",
            "",
            Box(0, 300, 1080, 2400),
            ("scrollable_down", "scrollable_up"),
            "",
            "com.android.settings:id/list",
        ),
        UIElement(
            "switch",
            "Wi-Fi",
            Box(0, 400, 1080, 600),
            ("clickable", "checked"),
            "Connected",
            "com.android.settings:id/row",
        ),
    )


def test_a_button_inside_a_row_stays_a_button_of_its_own() -> None:
    row = node(
        "android.widget.LinearLayout",
        "[0,400][1080,600]",
        text("Alarm", "[40,420][400,480]"),
        node("android.widget.Button", "[900,440][1040,560]", text="Delete", clickable="true"),
        clickable="true",
    )
    _, first, second = read(node(LIST, "[0,300][1080,2400]", row))
    assert (first.role, first.text, first.value) == ("list_item", "Alarm", "")
    assert (second.role, second.text) == ("button", "Delete")


def test_fields_tell_hint_and_content_and_what_is_secret() -> None:
    field = node(
        "android.widget.EditText",
        "[0,0][100,50]",
        text="abc",
        hint="Name",
        focused="true",
        clickable="true",
        password="true",
    )
    element = read(field)[1]
    assert (element.role, element.text, element.value) == ("text_field", "Name", "abc")
    assert element.states == ("clickable", "focused", "password", "editable")


def test_what_hangs_over_the_edge_is_cut_and_what_is_outside_is_left_out() -> None:
    elements = read(text("half", "[1000,-20][1200,60]"), text("gone", "[0,2400][100,2500]"))
    assert [(each.text, each.bounds) for each in elements[1:]] == [("half", Box(1000, 0, 1080, 60))]


def test_what_the_keyboard_covers_is_left_out() -> None:
    keyboard = Box(0, 1500, 1080, 2400)
    window = WINDOW._replace(keyboard=keyboard)
    elements = read(text("above", "[0,100][100,200]"), text("below", "[0,1600][100,1700]"), window=window)
    assert [(each.role, each.text) for each in elements] == [
        ("heading", "Settings"),
        ("text", "above"),
        ("keyboard", ""),
    ]


def test_labels_on_the_home_app_are_icons_and_groups_name_their_radios() -> None:
    icon = node(
        "android.widget.TextView", "[0,0][200,200]", text="Clock", clickable="true", package="com.android.launcher3"
    )
    radio = node("android.widget.RadioButton", "[0,300][200,400]", text="Large", clickable="true", checked="true")
    group = node("android.widget.RadioGroup", "[0,300][200,400]", radio, content_desc="Size")
    assert [(each.role, each.text, each.value) for each in read(icon, group)[1:]] == [
        ("icon", "Clock", ""),
        ("radio", "Large", "Size"),
    ]


def test_disabled_things_are_not_clickable() -> None:
    button = node("android.widget.Button", "[0,0][200,200]", text="Send", clickable="true", enabled="false")
    assert read(button)[1].states == ("disabled",)


def test_text_that_is_no_dump_gives_no_tree() -> None:
    assert read_tree("ERROR: could not get idle state.", WINDOW) is None
    assert read_tree("", WINDOW) is None
    assert read_tree("<html/>", WINDOW) is None


def test_a_swipe_that_moves_nothing_finds_the_end_of_its_list() -> None:
    elements = read(node(LIST, "[0,300][1080,2400]", ROW, scrollable="true"))
    ends = ListEnds()
    down = Swipe(x=500, y=1500, x2=500, y2=700)
    ends.learn(down, elements, elements[:1])
    assert ends.correct(elements) == elements
    ends.learn(down, elements, elements)
    told = ends.correct(elements)
    assert told is not None
    assert told[1].states == ("scrollable_up",)
    assert ends.correct(elements[:2]) == elements[:2]
