"""An episode as the critics read it: the action and the visible outcome of each step; each screen is read once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, TypeText, action_from_json, is_hold, pressed_point, scroll_direction
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import SLIDER_MARK, ScreenReader, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step

INTERRUPTIONS = frozenset({"popup", "loading"})
"""Pages that belong to no app: a message that appeared by itself, a page that is still loading."""


@dataclass(frozen=True, slots=True)
class SeenStep:
    index: int
    action: ElementAction
    outcome: Transition
    """The change from the screen before to the first screen after that is no interruption."""
    caption: str

    @property
    def presses_forward(self) -> bool:
        label = self.action.element.text if self.action.element is not None else ""
        pressed = self.action.presses or (self.action.confirms and self.outcome.opened)
        return pressed and self.outcome.before.page not in INTERRUPTIONS and label not in WAYS_BACK

    @property
    def changes_page_in_place(self) -> bool:
        element, outcome = self.action.element, self.outcome
        if element is None or outcome.before.page != outcome.after.page:
            return False
        if element.role == "text_field" and self.action.confirms:
            return element.value in outcome.appeared  # Otherwise, Enter has only put the keyboard away.
        presses = element.role in ("button", "menu_item", "list_item") and self.presses_forward
        return presses and bool(outcome.appeared or outcome.items_changed)


class SeenScreens:
    def __init__(self, screens: ScreenReader, capacity: int = 4096) -> None:
        cached = lru_cache(maxsize=capacity)
        self.image, self.size = screens.image, screens.size
        self.state = state = cached(lambda screen_id: read_screen(screen_id, screens.elements(screen_id)))
        outcome = cached(lambda before, after: compare(state(before), state(after)))

        def read(before: str, action: str | None, after: str, touch: bool) -> tuple[ElementAction, Transition, str]:
            done, found = read_element_action(action, state(before).elements), outcome(before, after)
            return done, found, f"{describe_action(done, touch)}: {describe_outcome(found)}."

        self._read = cached(read)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.state(screen_id).elements

    def step(self, step: Step, after: str, *, touch: bool) -> SeenStep:
        """Return a step that led to the screen `after`. Raises KeyError for a screen, ValueError for an action."""
        return SeenStep(step.index, *self._read(step.screen_before, step.action, after, touch))


def seen(screens: ScreenReader) -> SeenScreens:
    """Return a caching reader; `screens` itself if it is one."""
    return screens if isinstance(screens, SeenScreens) else SeenScreens(screens)


@contextmanager
def stored_evidence(episode: Episode) -> Iterator[None]:
    """Turn an unreadable screen or action into a `JudgeFailure` with the id of the trajectory."""
    try:
        yield
    except KeyError as error:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: screen {error} is not stored") from error
    except ValueError as error:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: a stored action cannot be read") from error


def replay(episode: Episode, screens: ScreenReader) -> tuple[SeenStep, ...]:
    """Return all steps of an episode as a critic reads them. Raises JudgeFailure for a missing screen or bad action."""
    reader, touch = seen(screens), episode.query.platform is Platform.PHONE

    def settled(at: int) -> str:
        found = (step.screen_after for step in episode.steps[at:])
        calm = (each for each in found if reader.state(each).page not in INTERRUPTIONS)
        return next(calm, episode.steps[at].screen_after)

    with stored_evidence(episode):
        return tuple(reader.step(step, settled(at), touch=touch) for at, step in enumerate(episode.steps))


class ElementAction(NamedTuple):
    parsed: Action | None
    element: UIElement | None
    """The element at the touched position; for typing and keys, the focused field; for a slider, its new mark."""
    words: str
    """The typed or answered text, the opened app, the pressed button or keys, or the reported status."""

    @property
    def kind(self) -> str:
        return self.parsed.kind if self.parsed is not None else "unparsed"

    @property
    def presses(self) -> bool:
        return self.kind in ("click", "long_press") or self.slides

    @property
    def slides(self) -> bool:
        """Whether it drags the knob of a slider to a mark."""
        return self.kind in ("swipe", "drag") and self.element is not None and self.element.role == SLIDER_MARK

    @property
    def confirms(self) -> bool:
        """Whether it presses Enter in a field, which may press a button of the page."""
        return self.kind in ("system_button", "key") and self.words.casefold() == "enter"

    @property
    def opens(self) -> bool:
        """Whether it opens an icon: a press, or the double click that desktop icons need."""
        if not isinstance(self.parsed, actions.Click):
            return False
        return self.parsed.count == 2 or (self.element is not None and self.element.role == "icon")

    @property
    def ends(self) -> bool:
        success = isinstance(self.parsed, actions.Terminate) and self.parsed.status == "success"
        return success or isinstance(self.parsed, actions.Answer)

    @property
    def gives_up(self) -> bool:
        return self.parsed == actions.Terminate(status="failure")


def read_element_action(action_json: str | None, elements: tuple[UIElement, ...]) -> ElementAction:
    """Read a stored action on a screen. Raises pydantic.ValidationError if the text is not an action."""
    if action_json is None:
        return ElementAction(None, None, "")
    action = action_from_json(action_json)
    point = pressed_point(action)
    touched = element_at(elements, *point) if point else None
    if isinstance(action, TypeText | actions.SystemButton | actions.PressKeys):
        touched = next((e for e in elements if "focused" in e.states), None)
    if isinstance(action, actions.Swipe | actions.Drag) and touched is not None and touched.role == SLIDER_MARK:
        end = element_at(elements, action.x2, action.y2)
        touched = end if end is not None and end.role == SLIDER_MARK else touched
    match action:
        case TypeText(text=words) | actions.Answer(text=words) | actions.Interact(text=words):
            pass
        case actions.OpenApp(app=words) | actions.SystemButton(button=words) | actions.Terminate(status=words):
            pass
        case actions.PressKeys(keys=keys):
            words = "+".join(keys)
        case _:
            words = "drag" if isinstance(action, actions.Drag) else ""
    return ElementAction(action, touched, words)


def element_at(elements: tuple[UIElement, ...], x: int, y: int) -> UIElement | None:
    """Return the smallest clickable element at (x, y), else the smallest one."""
    under = [element for element in elements if element.bounds.contains(x, y)]
    return min(under, key=lambda element: (not element.clickable, element.bounds.area), default=None)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_CAPTIONS = {
    "unparsed": "Gave a reply that is no action",
    "click": "Tapped {element}",
    "long_press": "Held {element}",
    **dict.fromkeys(("swipe", "scroll", "hscroll"), "Scrolled {way}"),
    "open": "Opened the app {words}",
    **dict.fromkeys(("system_button", "key"), "Pressed {words}"),
    "terminate": "Ended with {words}",
    "answer": "Answered {words}",
    "wait": "Waited",
    "interact": "Asked the user for help: {words}",
    "drag_to": "Dragged to {element}",
}
_MOUSE_CAPTIONS = _CAPTIONS | {"click": "Clicked {element}", "long_press": "Right-clicked {element}"}


def describe_action(action: ElementAction, touch: bool = True) -> str:
    """Describe an action, e.g. `Tapped radio "Large" in "Size"`, or `Clicked ...` without `touch`."""
    words, element = quoted(action.words), action.element
    if action.kind == "type":
        return f"Typed {words}" + (f" into {quoted(element.text)}" if element is not None else "")
    kind = "drag_to" if action.slides else "long_press" if is_hold(action.parsed) else action.kind
    caption = (_CAPTIONS if touch else _MOUSE_CAPTIONS).get(kind, f"Did {action.kind}")
    return caption.format(words=words, element=describe_element(element), way=scroll_direction(action.parsed))


def describe_element(element: UIElement | None) -> str:
    """Describe an element by role, text and group, e.g. `radio "Large" in "Size"`."""
    if element is None:
        return "an empty place"
    group = f" in {quoted(element.value)}" if control_kind(element) in ("choice", "stepper") and element.value else ""
    return f"{element.role.replace('_', ' ')} {quoted(element.text)}{group}"


def describe_outcome(outcome: Transition) -> str:
    """Describe the outcome of a step, e.g. `choice "Size" is now "Large" instead of "Medium"`."""
    if outcome.same:
        return "no visible effect"
    parts = [f"opened {quoted(outcome.after.title)}"] if outcome.opened else []
    parts += [
        f"{new.kind} {quoted(new.label)} is now {quoted(new.value)} instead of {quoted(old)}"
        for new, old in outcome.changes
    ]
    parts += [f"now shows {quoted(text)}" for text in outcome.appeared]
    parts += [f"no longer has {quoted(text)}" for text in outcome.vanished]
    parts += ["the list has changed"] * outcome.items_changed
    if parts:
        return "; ".join(parts)
    before, after = ({e.text for e in s.elements if "focused" in e.states} for s in (outcome.before, outcome.after))
    if after != before:
        return f"the field {quoted(min(after))} has the focus" if after else "the input is closed"
    return "a menu is open" if outcome.after.menu_is_open else "the view has moved"


ON, OFF = "on", "off"
WAYS_BACK = frozenset({"Back", "Close", "Cancel"})
_KINDS = {
    "radio": "choice",
    SLIDER_MARK: "choice",
    "switch": "toggle",
    "checkbox": "toggle",
    "stepper_button": "stepper",
    "text_field": "field",
    "search_field": "search",
}


class Control(NamedTuple):
    key: str
    """Identifies it among the controls of its page; independent of its value."""
    kind: str
    """`choice`, `toggle`, `stepper`, `field` or `search`."""
    label: str
    """Its visible name: the group of radio buttons, the label of a switch, the hint of a field."""
    value: str
    """The selected option, `on` or `off`, the number, or the text."""
    options: tuple[str, ...] = ()


class ScreenState(NamedTuple):
    screen_id: str
    title: str
    page: str
    """`app.screen` if the platform names its elements so, else the title."""
    controls: dict[str, Control]
    values: tuple[str, ...]
    items: tuple[tuple[str, str], ...]
    """Text and note of the list items, in reading order."""
    texts: frozenset[str]
    """Every visible text, in lower case."""
    is_form: bool
    """Whether it has a field and a button to submit it; until then, its values are a draft."""
    elements: tuple[UIElement, ...]

    @property
    def scrolls(self) -> bool:
        return any("scrollable_down" in each.states or "scrollable_up" in each.states for each in self.elements)

    @property
    def menu_is_open(self) -> bool:
        return any(element.role == "menu_item" for element in self.elements)


def read_screen(screen_id: str, elements: tuple[UIElement, ...]) -> ScreenState:
    submits = any(
        e.role == "button" and e.text not in WAYS_BACK and not e.element_id.startswith("taskbar/") for e in elements
    )
    return ScreenState(
        screen_id=screen_id,
        title=_title(elements),
        page=page_of(elements),
        controls=_controls(elements),
        values=tuple(e.text for e in elements if e.role == "value"),
        items=tuple((e.text, e.value) for e in elements if e.role == "list_item"),
        texts=frozenset(e.text.casefold() for e in elements if e.text),
        is_form=submits and any(e.role == "text_field" for e in elements),
        elements=elements,
    )


def page_of(elements: tuple[UIElement, ...]) -> str:
    """Return the part before `/` of the first element id that has a `/`, else the text of the title bar."""
    parts = (element.element_id.partition("/") for element in elements)
    return next((page for page, slash, _ in parts if slash and page), _title(elements[:1]))


def _title(elements: tuple[UIElement, ...]) -> str:
    """The text of the title bar; where that is the host of a website, the first heading, else the address."""
    bar = next((each for each in elements[:1] if each.role == "heading"), None)
    own = (each.text for each in elements[1:] if each.role == "heading" and each.text)
    return "" if bar is None else next(own, bar.value) if bar.value else bar.text


def control_kind(element: UIElement) -> str:
    return _KINDS.get(element.role, "")


def _controls(elements: tuple[UIElement, ...]) -> dict[str, Control]:
    controls: dict[str, Control] = {}
    for element in elements:
        kind = control_kind(element)
        if not kind:
            continue
        _, slash, name = element.element_id.partition("/")
        if kind in ("choice", "stepper"):  # several elements make one control, whose label is their value
            name, label = name.partition("/")[0] if slash else element.value, element.value
        else:
            name, label = name if slash else element.text, element.text
        key = f"{kind}:{name}"
        marked = "checked" in element.states
        if kind == "choice":
            known = controls.get(key, Control(key, kind, label, ""))
            value = element.text if marked or "selected" in element.states else known.value
            controls[key] = known._replace(value=value, options=(*known.options, element.text))
        elif kind != "stepper":
            value = (ON if marked else OFF) if kind == "toggle" else element.value
            controls[key] = Control(key, kind, label, value)
        elif key not in controls and (number := _number_of(label, elements)) is not None:
            controls[key] = Control(key, kind, label, number)
    return controls


def _number_of(label: str, elements: tuple[UIElement, ...]) -> str | None:
    pattern = re.compile(rf"(?:{re.escape(label)}\W*)?(-?\d+)")
    for element in elements:
        named = label in (element.text, element.value)
        if element.role != "stepper_button" and (named or element.text.startswith(label)):
            match = pattern.fullmatch(element.text) or (pattern.fullmatch(element.value) if named else None)
            if match:
                return match[1]
    return None


class ControlChange(NamedTuple):
    control: Control
    old: str


class Transition(NamedTuple):
    before: ScreenState
    after: ScreenState
    same: bool
    opened: bool
    """Another page, or the same page with another title, is shown."""
    changes: tuple[ControlChange, ...]
    """The controls whose values have changed; empty if another page was opened."""
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    """Data texts that are gone although the page is the same."""
    items_changed: bool
    """On one page, list items appeared, disappeared or changed, and not by scrolling."""


def compare(before: ScreenState, after: ScreenState) -> Transition:
    same = before.screen_id == after.screen_id
    opened = not same and (before.page, before.title) != (after.page, after.title)
    changes = []
    for key, new in after.controls.items() if not same and before.page == after.page else ():
        old = before.controls.get(key)
        # The selected option of a choice may only have been scrolled into or out of view.
        scrolled = new.kind == "choice" and not (new.value and old and (old.value or old.options == new.options))
        if old is not None and old.value != new.value and not scrolled:
            changes.append(ControlChange(new, old.value))
    items_changed, notes = False, dict(before.items)
    if before.items != after.items and not (same or opened or before.menu_is_open or after.menu_is_open):
        # The items differ other than by scrolling or filtering one list.
        filtered = [any(e.role == "search_field" and e.value for e in state.elements) for state in (before, after)]
        items_changed = filtered[0] == filtered[1] and not before.scrolls and not after.scrolls
        items_changed |= any(text in notes and notes[text] != note for text, note in after.items)
    return Transition(
        before=before,
        after=after,
        same=same,
        opened=opened,
        changes=tuple(changes),
        appeared=() if same else _more(after.values, before.values),
        vanished=() if same or opened or after.menu_is_open else _more(before.values, after.values),
        items_changed=items_changed,
    )


def _more(texts: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple((Counter(texts) - Counter(others)).elements())
