from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.dialects.user_text import UserText, compose, read


def test_guidance_is_laid_out_as_task_hints_and_notes() -> None:
    text = compose("order a\npizza", "1. Open Bites.\n2. Tap it.", ["Opened it.", "Tapped; Step 9: no."])
    assert text == (
        "The user query: order a pizza\nGuidance:\n1. Open Bites.\n2. Tap it.\n"
        "Task progress (done on this device so far): Step 1: Opened it.; Step 2: Tapped; Step 9: no."
    )
    assert read(text) == UserText(
        "order a pizza", ("1. Open Bites.", "2. Tap it."), ("Opened it.", "Tapped; Step 9: no.")
    )


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(read(text), UserText)
    assert isinstance(read(compose(text, text, [text])), UserText)
