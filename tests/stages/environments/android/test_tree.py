from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import HOLDABLE, UIElement
from trajmill.stages.environments.android.screen import ScreenContext, read_tree

WINDOW = ScreenContext(Size(1080, 2400), "Settings", "com.android.launcher3", None)


def node(kind: str, bounds: str, *children: str, **attributes: str) -> str:
    kind = kind if "." in kind else f"android.widget.{kind}"
    given = {"class": kind, "bounds": bounds, "package": "com.android.settings", "enabled": "true", **attributes}
    text = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in given.items())
    return f"<node {text}>{''.join(children)}</node>"


def text(words: str, bounds: str, **attributes: str) -> str:
    return node("TextView", bounds, text=words, **attributes)


def read(*nodes: str, window: ScreenContext = WINDOW) -> tuple[UIElement, ...]:
    elements = read_tree(f'<hierarchy rotation="0">{"".join(nodes)}</hierarchy>', window)
    assert elements is not None
    return elements


OURS = "com.android.settings:id"
ROW = node(
    "LinearLayout",
    "[0,400][1080,600]",
    text("Wi-Fi", "[40,420][400,480]", resource_id="android:id/title"),
    text("Connected", "[40,490][400,540]"),
    node("Switch", "[900,440][1040,560]", checkable="true", checked="true"),
    clickable="true",
    resource_id=f"{OURS}/row",
)
LIST = "androidx.recyclerview.widget.RecyclerView"


def test_a_row_with_a_switch_is_one_switch_with_its_texts() -> None:
    title = text("Network", "[40,100][600,200]", resource_id=f"{OURS}/action_bar_title")
    rows = node(LIST, "[0,300][1080,2400]", ROW, scrollable="true", resource_id=f"{OURS}/list")
    scrolls, checked = ("scrollable_down", "scrollable_up"), ("clickable", "checked")
    assert read(rows, title) == (
        UIElement("heading", "Network", Box(40, 100, 600, 200), ("title",), "", f"{OURS}/action_bar_title"),
        UIElement("list", "", Box(0, 300, 1080, 2400), scrolls, "", f"{OURS}/list"),
        UIElement("switch", "Wi-Fi", Box(0, 400, 1080, 600), checked, "Connected", f"{OURS}/row"),
    )


def test_a_button_inside_a_row_stays_a_button_of_its_own() -> None:
    button = node("Button", "[900,440][1040,560]", text="Delete", clickable="true")
    pressed = {"clickable": "true", "long_clickable": "true"}
    row = node("LinearLayout", "[0,400][1080,600]", text("Alarm", "[40,420][400,480]"), button, **pressed)
    _, first, second = read(node(LIST, "[0,300][1080,2400]", row))
    assert first[:2] == ("list_item", "Alarm") and first[3:5] == (("clickable", HOLDABLE), "")
    assert second[:2] == ("button", "Delete") and second.states == ("clickable",)


def test_fields_tell_hint_and_content_and_what_is_secret() -> None:
    flags = dict.fromkeys(("focused", "clickable", "password"), "true")
    element = read(node("EditText", "[0,0][100,50]", text="abc", hint="Name", **flags))[1]
    assert (element.role, element.text, element.value) == ("text_field", "Name", "abc")
    assert element.states == ("clickable", "focused", "password", "editable")


def test_what_hangs_over_the_edge_is_cut_and_what_is_outside_or_under_the_keyboard_is_left_out() -> None:
    elements = read(text("half", "[1000,-20][1200,60]"), text("gone", "[0,2400][100,2500]"))
    assert [(each.text, each.bounds) for each in elements[1:]] == [("half", Box(1000, 0, 1080, 60))]
    window = WINDOW._replace(keyboard=Box(0, 1500, 1080, 2400))
    elements = read(text("above", "[0,100][100,200]"), text("below", "[0,1600][100,1700]"), window=window)
    assert [(each.role, each.text) for each in elements[1:]] == [("text", "above"), ("keyboard", "")]


def test_labels_on_the_home_app_are_icons_and_groups_name_their_radios() -> None:
    icon = text("Clock", "[0,0][200,200]", clickable="true", package="com.android.launcher3")
    radio = node("RadioButton", "[0,300][200,400]", text="Large", clickable="true", checked="true")
    group = node("RadioGroup", "[0,300][200,400]", radio, content_desc="Size")
    found = [(each.role, each.text, each.value) for each in read(icon, group)[1:]]
    assert found == [("icon", "Clock", ""), ("radio", "Large", "Size")]


def test_disabled_things_are_not_clickable() -> None:
    button = node("Button", "[0,0][200,200]", text="Send", clickable="true", enabled="false")
    assert read(button)[1].states == ("disabled",)


def test_text_that_is_no_dump_gives_no_tree() -> None:
    for dump in ("ERROR: could not get idle state.", "", "<html/>"):
        assert read_tree(dump, WINDOW) is None
