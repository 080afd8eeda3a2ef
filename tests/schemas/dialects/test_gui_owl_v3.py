import pytest

from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import ParseFailure, Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.geometry import Size

PHONE, SCREEN = native_frame(Size(720, 1280)), native_frame(Size(1280, 720))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"action": "click", "coordinate": [721, 5]}',
        '{"action": "click", "coordinate": [-1, 5]}',
        '{"action": "click", "coordinate": [NaN, 5]}',
        '{"action": "click", "coordinate": [1e999, 5]}',
        '{"action": "click", "coordinate": [true, 5]}',
        '{"action": "click", "coordinate": ["5", 5]}',
        '{"action": "click", "coordinate": [5]}',
        '{"action": "type"}',
        '{"action": "type", "text": "\\ud800"}',
        '{"action": "terminate", "status": "maybe"}',
        '{"action": "system_button", "button": "Power"}',
        '{"action": "double_click", "coordinate": [5, 5]}',
        '{"action": ["click"]}',
        "[]",
    ],
)
def test_wrong_arguments_are_failures(arguments: str) -> None:
    text = f'<tool_call>{{"name": "mobile_use", "arguments": {arguments}}}</tool_call>'
    assert isinstance(GuiOwlMobile().parse(text, PHONE), ParseFailure)


def test_deep_nesting_and_endless_numbers_are_failures() -> None:
    for body in ("[" * 100_000, "9" * 5_000, '{"name": "mobile_use", "arguments": ' * 3):
        assert isinstance(GuiOwlMobile().parse(f"<tool_call>{body}", PHONE), ParseFailure)


@pytest.mark.parametrize(
    ("after", "conclusion", "slips"),
    [
        ("<conclusion>Opened it.</conclusion> junk", "Opened it.", True),
        ("<conclusion>Opened it.</conclusion>\nUser: next?", "Opened it.", True),
        ("Conclusion: Opened it.</conclusion> junk", "Opened it.", True),
        ("<conclusion>Opened it.", "Opened it.", True),
        ("Conclusion: Opened it.\n<tool_call>{}</tool_call>", "Opened it.", True),
        ("<conclusion>Conclusion: Opened it.</conclusion>", "Opened it.", False),
        ("Conclusion: Opened it.", "Opened it.", False),
        ("", "", False),
    ],
)
def test_the_conclusion_ends_where_its_tag_or_another_call_says(after: str, conclusion: str, slips: bool) -> None:
    call = '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [10, 20]}}</tool_call>'
    parsed = GuiOwlMobile().parse(f"<thinking>It is open.</thinking> So.\n{call}\n{after}", PHONE)
    assert isinstance(parsed, Reply)
    assert parsed[:3] == ("It is open.", Click(x=10, y=20), conclusion) and bool(parsed.slip) == slips
