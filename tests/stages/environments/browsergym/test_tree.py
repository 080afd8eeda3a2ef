from typing import Any

from trajmill.schemas.geometry import Box, Size
from trajmill.stages.environments.browsergym.environment import PageTree, read_elements


def node(number: int, role: str, name: str = "", element: str = "", parent: int = 0, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"nodeId": str(number), "parentId": str(parent), "role": {"value": role}} | more
    return found | {"name": {"value": name}} | ({"browsergym_id": element} if element else {})


def place(left: float, top: float, width: float, height: float, **more: Any) -> dict[str, Any]:
    return {"bbox": [left, top, width, height], "visibility": 1.0, "clickable": False} | more


TREE = PageTree(
    [
        node(1, "RootWebArea", "Page"),
        node(2, "button", "Low", "a", 1, properties=[{"name": "disabled", "value": {"value": True}}]),
        node(3, "textbox", "Name", "b", 1, value={"value": "Ann"}),
        node(4, "generic", "", "c", 1),
        node(5, "StaticText", "Some\n text", parent=4),
        node(6, "checkbox", "Tick", "d", 1, properties=[{"name": "checked", "value": {"value": "true"}}]),
        node(7, "button", "Hidden", "e", 1),
        node(8, "button", "Nowhere", "f", 1),
        node(9, "StaticText", "Low", parent=2),
        node(10, "StaticText", "astray", parent=77),
    ],
    {
        "a": place(10, 60, 20.4, 10),
        "b": place(10, 20, 500, 10),
        "c": place(-5, 40, 30, 10, clickable=True),
        "d": place(50, 40, 10, 10),
        "e": place(0, 0, 10, 10, visibility=0.2),
        "f": place(0, 0, 10, 10, bbox=None),
    },
    focused="b",
)


def test_visible_elements_stand_in_reading_order_with_boxes_inside_the_screen_and_their_states() -> None:
    title, *found = read_elements(TREE, "Shop", Size(100, 80))
    assert (title.role, title.text, title.states) == ("heading", "Shop", ("title",))
    assert [(each.role, each.text, each.bounds, each.states) for each in found] == [
        ("text_field", "Name", Box(10, 20, 100, 30), ("clickable", "focused", "editable")),
        ("text", "Some text", Box(0, 40, 25, 50), ("clickable",)),
        ("checkbox", "Tick", Box(50, 40, 60, 50), ("clickable", "checked")),
        ("button", "Low", Box(10, 60, 30, 70), ("clickable", "disabled")),
    ]
    assert (found[0].value, found[1].element_id) == ("Ann", "c")
