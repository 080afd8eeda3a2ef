"""An episode as the critics read it: the action and the visible outcome of each step; each screen is read once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Swipe, TypeText, action_from_json, pressed_point
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.trees.screen_state import WAYS_BACK, Transition, compare, control_kind, read_screen

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
        """Whether it presses an element that does not lead back."""
        element = self.action.element
        leads_back = element is not None and element.text in WAYS_BACK
        return self.action.presses and self.outcome.before.page not in INTERRUPTIONS and not leads_back

    @property
    def changes_page_in_place(self) -> bool:
        """Whether a press on a button or an item changes the content of its page."""
        element, outcome = self.action.element, self.outcome
        return (
            self.presses_forward
            and outcome.before.page == outcome.after.page
            and element is not None
            and element.role in ("button", "menu_item", "list_item")
            and bool(outcome.appeared or outcome.items_changed)
        )


class SeenScreens:
    def __init__(self, screens: ScreenReader, capacity: int = 4096) -> None:
        cached = lru_cache(maxsize=capacity)
        self.image, self.size = screens.image, screens.size
        self.state = state = cached(lambda screen_id: read_screen(screen_id, screens.elements(screen_id)))
        outcome = cached(lambda before, after: compare(state(before), state(after)))

        def read(before: str, action_json: str | None, after: str) -> tuple[ElementAction, Transition, str]:
            action, found = read_element_action(action_json, state(before).elements), outcome(before, after)
            return action, found, f"{describe_action(action)}: {describe_outcome(found)}."

        self._read = cached(read)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.state(screen_id).elements

    def step(self, step: Step, after: str) -> SeenStep:
        """Return a step that led to the screen `after`. Raises KeyError for a screen, ValueError for an action."""
        return SeenStep(step.index, *self._read(step.screen_before, step.action, after))


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
    reader = seen(screens)

    def settled(at: int) -> str:
        found = (step.screen_after for step in episode.steps[at:])
        calm = (each for each in found if reader.state(each).page not in INTERRUPTIONS)
        return next(calm, episode.steps[at].screen_after)

    with stored_evidence(episode):
        return tuple(reader.step(step, settled(at)) for at, step in enumerate(episode.steps))


class ElementAction(NamedTuple):
    parsed: Action | None
    """None if the reply had no action."""
    element: UIElement | None
    """The element at the touched position; for typing, the focused field."""
    words: str
    """The typed or answered text, the opened app, the pressed button or keys, or the reported status."""

    @property
    def kind(self) -> str:
        return self.parsed.kind if self.parsed is not None else "unparsed"

    @property
    def presses(self) -> bool:
        return self.kind in ("click", "long_press")

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


def read_element_action(action_json: str | None, elements: tuple[UIElement, ...]) -> ElementAction:
    """Read a stored action on a screen. Raises pydantic.ValidationError if the text is not an action."""
    if action_json is None:
        return ElementAction(None, None, "")
    action = action_from_json(action_json)
    point = pressed_point(action)
    touched = element_at(elements, *point) if point else None
    if isinstance(action, TypeText):
        touched = next((e for e in elements if "focused" in e.states), None)
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


def scroll_direction(action: Action | None) -> str:
    """Return where a swipe or scroll moves the view; empty for other actions. A swipe upwards moves the view down."""
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            if abs(x2 - x) > abs(y2 - y):
                return "right" if x2 < x else "left"
            return "down" if y2 < y else "up"
        case actions.Scroll(clicks=clicks):
            return "up" if clicks > 0 else "down"
        case actions.HorizontalScroll(clicks=clicks):
            return "right" if clicks > 0 else "left"
        case _:
            return ""


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


def describe_action(action: ElementAction) -> str:
    """Describe an action, e.g. `Tapped radio "Large" in "Size"`."""
    words, element = quoted(action.words), action.element
    if action.kind == "type":
        return f"Typed {words}" + (f" into {quoted(element.text)}" if element is not None else "")
    caption = _CAPTIONS.get(action.kind, f"Did {action.kind}")
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
    parts = [f"opened {quoted(outcome.after.title)} of {quoted(outcome.after.page)}"] if outcome.opened else []
    parts += [
        f"{new.kind} {quoted(new.label)} is now {quoted(new.value)} instead of {quoted(old)}"
        for new, old in outcome.changes
    ]
    parts += [f"now shows {quoted(text)}" for text in outcome.appeared]
    parts += [f"no longer has {quoted(text)}" for text in outcome.vanished]
    if outcome.items_changed:
        parts.append("the list has changed")
    if parts:
        return "; ".join(parts)
    if outcome.before.items != outcome.after.items:
        return "the view has moved"
    return "the keyboard is up" if outcome.keyboard else "something else is in view"
