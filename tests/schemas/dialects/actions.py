from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from trajmill.schemas.actions import Action, SwitchDevice
from trajmill.schemas.geometry import Size

KINDS = [kind for kind in get_args(get_args(Action)[0]) if kind is not SwitchDevice]
"""All that a reply of a model may be."""
_TEXT = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["</tool_call>", 'it\'s "so"\n', "a\\n", "\\", "')", "', direction='up')", "Action: click(start_box='(1,2)')"]
)
_EXAMPLE: dict[str, Any] = {
    **{"x": 10, "y": 20, "x2": 30, "y2": 40, "clicks": 5, "seconds": 5.0},
    **{"text": "a", "keys": ("ctrl",), "app": "Mail", "status": "success"},
}


def _example(kind: Any) -> Action:
    button = {"button": "Back"} if kind.model_fields["kind"].default == "system_button" else {}
    made: Action = kind(**{name: value for name, value in _EXAMPLE.items() if name in kind.model_fields}, **button)
    return made


EXAMPLES: dict[str, Action] = {made.kind: made for made in map(_example, KINDS)}
"""One action of each kind; a family that knows the kind has words for this one."""


def actions_on(screen: Size) -> st.SearchStrategy[Action]:
    """Any action on a screen, and some beyond it: those no family may put into words."""
    xs, ys, wheel = st.integers(-1, screen.width), st.integers(-1, screen.height), st.integers(-1100, 1100)
    return any_action(xs, ys, _TEXT, st.floats(-1, 700), st.integers(-6, 6) | wheel, st.integers(1, 4))


def any_action(
    xs: st.SearchStrategy[int],
    ys: st.SearchStrategy[int],
    text: st.SearchStrategy[str],
    seconds: st.SearchStrategy[float],
    wheel: st.SearchStrategy[int],
    clicks: st.SearchStrategy[int],
) -> st.SearchStrategy[Action]:
    """Actions of all kinds with the given positions, texts, durations, turns of the wheel and numbers of clicks."""
    given = {"x": xs, "y": ys, "x2": xs, "y2": ys, "text": text, "app": text, "seconds": seconds, "count": clicks}
    given |= {"clicks": wheel, "keys": st.lists(text, max_size=3).map(tuple)}

    def of(kind: Any) -> st.SearchStrategy[Action]:
        fields = {name: given.get(name, st.from_type(hint)) for name, hint in get_type_hints(kind).items()}
        if not kind.model_fields.get("x", kind.model_fields["kind"]).is_required():
            fields |= {name: fields[name] | st.none() for name in ("x", "y") if name in fields}
        return st.builds(kind, **{name: fields[name] for name in kind.model_fields if name != "kind"})

    return st.one_of([of(kind) for kind in KINDS])
