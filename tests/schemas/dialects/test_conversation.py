import pytest

from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.conversation import Conversation, PastStep, conversation
from trajmill.schemas.dialects.families import FAMILIES
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform

FRAME = native_frame(Size(720, 1280))


def asked(family: str, steps: int, guidance: str | None = None) -> Conversation[str]:
    past = [PastStep(f"screen {n}", f"reply {n}", f"done {n}") for n in range(1, steps + 1)]
    return conversation(
        FAMILIES[family], Platform.PHONE, FRAME, "Order Pad Thai", guidance, past, f"screen {steps + 1}"
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


def test_gui_owl_1_5_is_shown_the_last_four_screens_with_its_replies() -> None:
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


def test_ui_tars_keeps_all_replies_and_is_shown_the_last_screens() -> None:
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
