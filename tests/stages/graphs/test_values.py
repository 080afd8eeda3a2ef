import pytest

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import ValueType
from trajmill.stages.graphs.values import examples, fresh_example, type_of, type_of_label


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("Your name", ValueType.PERSON),
        ("What needs to be done?", ValueType.TITLE),
        ("Due date", ValueType.DATE),
        ("Start time", ValueType.TIME),
        ("Number of guests", ValueType.NUMBER),
        ("Price", ValueType.AMOUNT),
        ("E-mail address", ValueType.EMAIL),
        ("Street and number", ValueType.ADDRESS),
        ("Search the shop", ValueType.SEARCH),
        ("Remarks", ValueType.TEXT),
        ("Renamed", ValueType.TEXT),
    ],
)
def test_a_label_tells_the_type(label: str, kind: ValueType) -> None:
    assert type_of_label(label) is kind


def test_the_type_of_an_input_counts_more_than_its_label() -> None:
    def field(label: str, *states: str) -> UIElement:
        return UIElement("text_field", label, Box(0, 0, 1, 1), ("editable", *states))

    assert type_of(field("Name", "date")) is ValueType.DATE
    assert type_of(field("Price", "number")) is ValueType.AMOUNT
    assert type_of(field("Hours", "number")) is ValueType.NUMBER


def test_each_type_has_examples_and_none_is_used_twice() -> None:
    assert examples().keys() == set(ValueType)
    used: set[str] = set()
    for _ in range(5):
        used.add(fresh_example(ValueType.PERSON, used))
    assert len(used) == 5
