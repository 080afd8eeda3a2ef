import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas.dialects.actions import EXAMPLES, actions_on
from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace, native_frame
from trajmill.schemas.dialects.base import NotExpressible, ParseFailure, Reply
from trajmill.schemas.dialects.conversation import Conversation, PastStep, conversation
from trajmill.schemas.dialects.families import FAMILIES, Family, family_named
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
platforms = pytest.mark.parametrize("platform", [Platform.PHONE, Platform.DESKTOP])
SCREEN = Size(720, 719)
ACTIONS = actions_on(SCREEN)
EXACT = CoordinateFrame(CoordinateSpace.RESIZED_PIXELS, SCREEN, SCREEN)
PHONE = native_frame(Size(720, 1280))
TAGS = "<tool_call></tool_call>"
words = st.text(st.characters(codec="utf-8"), max_size=40).flatmap(lambda text: st.sampled_from([text, text + TAGS]))

_V3_PHONE = "click long_press swipe type key system_button open wait answer terminate"
_V3_DESKTOP = "click drag mouse_move scroll type key wait terminate"
SAID = {
    ("any", "phone"): _V3_PHONE,
    ("any", "desktop"): _V3_DESKTOP,
    ("gui-owl", "phone"): _V3_PHONE,
    ("gui-owl", "desktop"): _V3_DESKTOP,
    ("gui-owl-1.5", "phone"): "click long_press swipe type key system_button open wait answer interact terminate",
    ("gui-owl-1.5", "desktop"): "click drag_to mouse_move scroll hscroll type key wait answer interact terminate",
    ("ui-tars", "phone"): "click long_press swipe type system_button open wait answer terminate",
    ("ui-tars", "desktop"): "click drag scroll hscroll type key wait answer terminate",
    ("gui-r1", "phone"): "click type system_button terminate",
    ("gui-r1", "desktop"): "click scroll hscroll type terminate",
    ("qwen2.5-vl", "phone"): "click long_press swipe type key system_button open wait terminate",
    ("qwen2.5-vl", "desktop"): "click drag_to mouse_move scroll type key wait terminate",
    ("read-aloud", "phone"): "click swipe scroll type system_button terminate",
    ("read-aloud", "desktop"): "click swipe scroll type system_button terminate",
    ("qwen3-vl", "phone"): "click long_press swipe type system_button wait answer terminate",
    ("qwen3-vl", "desktop"): "click drag_to mouse_move scroll hscroll type key wait answer terminate",
}
"""The kinds of actions that a family has words for; of some kinds not every action."""


@families
@platforms
@given(action=ACTIONS, thought=words, conclusion=words)
def test_what_is_written_is_read(
    family: Family, platform: Platform, action: Action, thought: str, conclusion: str
) -> None:
    dialect, frame = family.dialect(platform), exact(family)
    try:
        text = dialect.render(Reply(thought, action, conclusion), frame)
    except NotExpressible as refusal:
        assert str(refusal) and "\n" not in str(refusal)
        return
    read = dialect.parse(text, frame)
    assert isinstance(read, Reply) and read.action == action


def exact(family: Family) -> CoordinateFrame:
    """A frame in which a unit of the family's space is one pixel of the screen."""
    if family.space is CoordinateSpace.PATCHES:
        return CoordinateFrame(family.space, SCREEN, Size(14 * SCREEN.width, 14 * SCREEN.height))
    return EXACT


@families
@platforms
def test_each_family_says_the_kinds_that_it_is_published_with(family: Family, platform: Platform) -> None:
    said = set()
    for kind, action in EXAMPLES.items():
        with suppress(NotExpressible):
            family.dialect(platform).render(Reply("", action, ""), EXACT)
            said.add(kind)
    assert said == set(SAID[family.name, platform].split())


@families
@platforms
def test_the_system_message_names_the_space_and_holds_what_is_rendered(family: Family, platform: Platform) -> None:
    frame = family.frame(Size(720, 1280))
    system = family.dialect(platform).system_prompt(frame)
    extent = {
        CoordinateSpace.RESIZED_PIXELS: f"{frame.resized.width}x{frame.resized.height}",
        CoordinateSpace.PATCHES: f"{frame.resized.width // 14}x{frame.resized.height // 14}",
        CoordinateSpace.PER_MILLE: "1000x1000",
        CoordinateSpace.PER_999: "999x999",
    }[frame.space]
    assert (extent in system or family.name in ("ui-tars", "gui-r1")) and "{screen}" not in system
    if "<tools>" in system:
        tool = json.loads(system.split("<tools>\n")[1].split("</tools>")[0])["function"]
        assert tool["name"] == ("mobile_use" if platform is Platform.PHONE else "computer_use")


def test_the_published_names_of_the_desktop_of_1_5() -> None:
    family, frame = FAMILIES["gui-owl-1.5"], CoordinateFrame(CoordinateSpace.PER_MILLE, Size(1920, 1080), Size(1, 1))
    dialect = family.dialect(Platform.DESKTOP)
    tool = json.loads(dialect.system_prompt(frame).split("<tools>\n")[1].split("</tools>")[0])["function"]
    properties = tool["parameters"]["properties"]
    assert " ".join(properties["action"]["enum"]) == (
        "key type mouse_move left_click left_click_drag right_click middle_click double_click triple_click scroll "
        "hscroll wait terminate answer interact"
    )
    assert list(properties) == ["action", "keys", "text", "coordinate", "pixels", "time", "status"]
    reply = Reply("", Click(x=960, y=540), "Press the button.", order="Press the button.")
    assert dialect.render(reply, frame) == (
        "Action: Press the button.\n<tool_call>\n"
        '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 500]}}\n</tool_call>'
    )
    assert dialect.parse(dialect.render(reply, frame), frame) == reply


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("{'action': 'click', 'point': [360, 640], 'input_text': 'no input text'}", Click(x=360, y=640)),
        ('{"action": "type", "point": [-100, -100], "input_text": "Pad Thai"}', TypeText(text="Pad Thai")),
        ("{'action': 'scroll', 'point': [-100, -100], 'input_text': 'DOWN'}", Swipe(x=360, y=960, x2=360, y2=320)),
        ("{'action': 'press home', 'point': [-100, -100]}", SystemButton(button="Home")),
        ("{'action': 'press_back', 'point': [-100, -100], 'input_text': 'no input text'}", SystemButton(button="Back")),
        ("{'action': 'complete', 'point': [-100, -100], 'input_text': 'no input text'}", Terminate(status="success")),
        ("{'action': 'select', 'point': [3, 4], 'input_text': 'Large'}", None),
        ("{'action': 'click', 'point': [-100, -100], 'input_text': 'no input text'}", None),
        ("{'action': __import__('os').getcwd(), 'point': [3, 4]}", None),
    ],
)
def test_the_answers_of_gui_r1_as_ces_prints_them(answer: str, action: Action | None) -> None:
    """CES C: `<think>...</think> <answer>['action': ..., 'point': [x, y], 'input_text': 'no input text']</answer>`."""
    dialect = FAMILIES["gui-r1"].dialect(Platform.PHONE)
    read = dialect.parse(f"<think>The icon is visible.</think><answer>[{answer}]</answer>", PHONE)
    if action is None:
        assert isinstance(read, ParseFailure) and "\n" not in read.message
        return
    assert isinstance(read, Reply) and (read.thought, read.action, read.slip) == ("The icon is visible.", action, "")
    assert dialect.parse(dialect.render(read, PHONE), PHONE) == read
    alone = dialect.parse(answer, PHONE), dialect.parse(f"<answer>[{answer}]</answer>", PHONE)
    assert isinstance(alone[0], ParseFailure) and isinstance(alone[1], Reply) and alone[1].slip


def test_gui_r1_is_given_its_history_in_the_command_and_read_aloud_after_its_task() -> None:
    dialect = FAMILIES["gui-r1"].dialect(Platform.PHONE)
    assert "executing the command 'Tap {history}.', with the action history being 'None'." in dialect.task_text(
        "Tap {history}.", None, []
    )
    assert "'Step 1: click [3, 4]; Step 2: type Bob'." in dialect.task_text("Go.", None, ["click [3, 4]", "type Bob"])
    said = DIALECT.task_text("Order a\n Bag of Lemon", None, ["Market", "Lemon"])
    assert said == "Order a Bag of Lemon\nDone: Market ; Lemon"


def test_an_unknown_name_and_a_screen_that_no_patches_fit_give_one_line() -> None:
    assert family_named("qwen3-vl") is FAMILIES["qwen3-vl"]
    with pytest.raises(BadInputError, match=r"^no model family is named 'qwen3vl'; did you mean qwen3-vl\?$"):
        family_named("qwen3vl")
    with pytest.raises(BadInputError, match=r"there are gui-owl, "):
        family_named("???")
    small = FAMILIES["qwen2.5-vl"].within(700)
    with pytest.raises(ModelFailure, match=r"^720x1280 pixels: would be sent as 28x28, and .* 3136 to 700 "):
        small.frame(Size(720, 1280))
    with pytest.raises(ModelFailure, match=r"^3x900 pixels: too elongated [^\n]*$"):
        FAMILIES["gui-owl-1.5"].frame(Size(3, 900))


BEARS_NO_SIGN = {"qwen2.5-vl"}
"""A call without a word around it could be of any family."""


@families
@platforms
def test_a_reply_in_another_dialect_is_refused_by_name(family: Family, platform: Platform) -> None:
    for writer in FAMILIES.values():
        text = writer.dialect(platform).render(Reply("I see.", Click(x=10, y=20), "Press."), EXACT)
        read = family.dialect(platform).parse(text, EXACT)
        if writer.dialect(platform) == family.dialect(platform):
            assert isinstance(read, Reply)
        elif writer.name in BEARS_NO_SIGN:
            refusals = (
                f"it belongs to {writer.name}",
                f"as {writer.name} writes it",
                "the reply has no <do>",
                "the reply has no <answer>",
            )
            assert isinstance(read, Reply) or any(refusal in read.message for refusal in refusals)
        else:
            assert isinstance(read, ParseFailure) and "\n" not in read.message
            assert f"written as {'gui-owl' if writer.name == 'any' else writer.name} writes" in read.message


_POINTS = ("721, 5", "-1, 5", "NaN, 5", "1e999, 5", "true, 5", '"5", 5', "5")


@pytest.mark.parametrize(
    "arguments",
    [
        *(f'{{"action": "click", "coordinate": [{each}]}}' for each in _POINTS),
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


FAMILY = FAMILIES["read-aloud"]
DIALECT, FRAME = FAMILY.dialect(Platform.PHONE), FAMILY.frame(Size(720, 1280))


@pytest.mark.parametrize(
    ("action", "said", "remembered"),
    [
        (Click(x=360, y=640), "<do> click <x6> <y11>", "Lemon"),
        (Click(x=0, y=1279, count=2), "<do> double_click <x0> <y22>", "Lemon"),
        (Swipe(x=360, y=900, x2=360, y2=320), "<do> swipe <x6> <y15> <x6> <y6>", "swipe"),
        (Scroll(x=60, y=58, clicks=-5), "<do> scroll_down <x1> <y1>", "scroll_down"),
        (TypeText(text="call me"), "<do> type call me", "type call me"),
        (TypeText(text="9.50", enter=True), "<do> enter 9.50", "enter 9.50"),
        (SystemButton(button="Back"), "<do> back", "back"),
        (Terminate(status="success"), "<do> done", "done"),
    ],
)
def test_rows_are_read_before_an_action_is_said(action: Action, said: str, remembered: str) -> None:
    thought = rows_aloud(["Banana", "Lemon"], "Lemon")
    text = DIALECT.render(Reply(thought, action, "not written"), FRAME)
    assert text == f"find Lemon <r0> Banana <r1> Lemon {said}"
    read = DIALECT.parse(text, FRAME)
    assert FRAME.resized == Size(168, 308) and FRAME.extent == (12.0, 22.0), "a place for each patch of 14 pixels"
    assert isinstance(read, Reply) and (read.thought, read.conclusion) == (thought, remembered)
    assert DIALECT.render(read, FRAME) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "<r0> Banana", "<do>", "<do> click", "<do> click <x1>", "<do> click <x1> <y2> <x1> <y2>"),
        *("<do> click <x1> <y2> now", "<do> swipe <x1> <y2>", "<do> type", "<do> done twice", "<do> fly"),
    ],
)
def test_a_reply_without_a_complete_action_has_no_action(text: str) -> None:
    read = DIALECT.parse(text, FRAME)
    assert isinstance(read, ParseFailure) and "\n" not in read.message


@given(labels=st.lists(st.text(max_size=20), max_size=40))
def test_no_label_is_taken_for_the_action(labels: list[str]) -> None:
    text = DIALECT.render(Reply(rows_aloud(labels).encode(errors="ignore").decode(), Click(x=60, y=116), ""), FRAME)
    read = DIALECT.parse(text, FRAME)
    assert isinstance(read, Reply) and read.action == Click(x=60, y=116)
    assert text.count("<r") <= 32 + sum(label.count("<r") for label in labels)


def asked(family: str, steps: int, guidance: str | None = None) -> Conversation[str]:
    past = [PastStep(f"screen {n}", f"reply {n}", f"done {n}") for n in range(1, steps + 1)]
    return conversation(
        FAMILIES[family], Platform.PHONE, PHONE, "Order Pad Thai", guidance, past, f"screen {steps + 1}"
    )


def layout(conversation: Conversation[str]) -> list[tuple[str, str | None]]:
    """Role and screen of each message, the reply in place of the screen for the model's own."""
    return [
        (message.role, message.text if message.role == "assistant" else message.screen)
        for message in conversation.messages
    ]


@pytest.mark.parametrize("family", ["any", "gui-owl", "qwen2.5-vl", "qwen3-vl"])
def test_families_without_history_images_get_the_current_screen_and_all_conclusions(family: str) -> None:
    made = asked(family, 6)
    assert layout(made) == [("system", None), ("user", "screen 7")]
    assert all(f"Step {n}: done {n}" in made.task for n in range(1, 7))
    assert made.messages[1].text == made.task and "reply" not in made.task


def test_gui_owl_1_5_is_shown_the_last_four_screens_and_ui_tars_keeps_all_replies() -> None:
    made = asked("gui-owl-1.5", 6)
    turns = [turn for n in range(3, 7) for turn in (("user", f"screen {n}"), ("assistant", f"reply {n}"))]
    assert layout(made) == [("system", None), *turns, ("user", "screen 7")]
    assert made.messages[1].text == made.task
    assert made.task == (
        "Please generate the next move according to the UI screenshot, instruction and previous actions.\n\n"
        "Instruction: Order Pad Thai\n\nPrevious actions:\nStep 1: done 1\nStep 2: done 2"
    )
    assert all(not message.text for message in made.messages[2:] if message.role == "user")
    made = asked("gui-owl-1.5", 0)
    assert layout(made) == [("system", None), ("user", "screen 1")]
    assert made.task.endswith("Previous actions:\nNone")
    made = asked("ui-tars", 6)
    assert layout(made)[:4] == [("system", None), ("user", None), ("assistant", "reply 1"), ("assistant", "reply 2")]
    assert layout(made)[4:6] == [("user", "screen 3"), ("assistant", "reply 3")]
    assert layout(made)[-1] == ("user", "screen 7")
    assert "done 1" not in made.task and made.task.endswith("Order Pad Thai")
    assert layout(asked("ui-tars", 2))[:3] == [("system", None), ("user", "screen 1"), ("assistant", "reply 1")]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_guidance_is_in_the_prompt_but_not_in_the_task(family: str) -> None:
    made = asked(family, 3, "1. Tap the cart.")
    assert "1. Tap the cart." in made.messages[1].text
    assert "cart" not in made.task and made.task == asked(family, 3).task
