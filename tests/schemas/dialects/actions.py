"""Actions of every kind, for tests of what dialects write and read."""

from hypothesis import strategies as st

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    Interact,
    LongPress,
    MoveMouse,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.geometry import Size

_TEXT = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["</tool_call>", 'it\'s "so"\n', "a\\n", "\\", "')", "', direction='up')", "Action: click(start_box='(1,2)')"]
)
_SECONDS = st.floats(-1, 700)
_BUTTONS = st.sampled_from(("left", "middle", "right"))

EXAMPLES: dict[str, Action] = {
    example.kind: example
    for example in (
        Click(x=10, y=20),
        LongPress(x=10, y=20),
        Swipe(x=10, y=20, x2=30, y2=40),
        Drag(x=10, y=20, x2=30, y2=40),
        DragTo(x=10, y=20),
        MoveMouse(x=10, y=20),
        Scroll(x=10, y=20, clicks=5),
        HorizontalScroll(x=10, y=20, clicks=5),
        TypeText(text="a"),
        PressKeys(keys=("ctrl",)),
        SystemButton(button="Back"),
        OpenApp(app="Mail"),
        Wait(seconds=5),
        Interact(text="log in"),
        Answer(text="42"),
        Terminate(status="success"),
    )
}
"""One action of each kind; a family that knows the kind has words for this one."""


def actions_on(screen: Size) -> st.SearchStrategy[Action]:
    """Any action on a screen, and some beyond it: those no family may put into words."""
    xs, ys, wheel = st.integers(-1, screen.width), st.integers(-1, screen.height), st.integers(-1100, 1100)
    return any_action(xs, ys, _TEXT, _SECONDS, st.integers(-6, 6) | wheel, st.integers(1, 4))


def any_action(
    xs: st.SearchStrategy[int],
    ys: st.SearchStrategy[int],
    text: st.SearchStrategy[str],
    seconds: st.SearchStrategy[float],
    wheel: st.SearchStrategy[int],
    clicks: st.SearchStrategy[int],
) -> st.SearchStrategy[Action]:
    """Actions of all kinds with the given positions, texts, durations, turns of the wheel and numbers of clicks."""
    place, two = {"x": xs, "y": ys}, {"x": xs, "y": ys, "x2": xs, "y2": ys}
    turn = {"x": xs | st.none(), "y": ys | st.none(), "clicks": wheel}
    return st.one_of(
        st.builds(Click, **place, button=_BUTTONS, count=clicks),
        st.builds(LongPress, **place, seconds=seconds),
        st.builds(Swipe, **two),
        st.builds(Drag, **two),
        st.builds(DragTo, **place),
        st.builds(MoveMouse, **place),
        st.builds(Scroll, **turn),
        st.builds(HorizontalScroll, **turn),
        st.builds(TypeText, text=text, clear=st.booleans(), enter=st.booleans()),
        st.builds(PressKeys, keys=st.lists(text, max_size=3).map(tuple)),
        st.builds(SystemButton, button=st.sampled_from(("Back", "Home", "Menu", "Enter"))),
        st.builds(OpenApp, app=text),
        st.builds(Wait, seconds=seconds),
        st.builds(Interact, text=text),
        st.builds(Answer, text=text),
        st.builds(Terminate, status=st.sampled_from(("success", "failure"))),
    )
