"""An episode as the critics read it: the action and the visible outcome of each step; each screen is read once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.trees.caption import ElementAction, describe_action, describe_outcome, read_element_action
from trajmill.stages.critics.trees.screen_state import WAYS_BACK, Transition, compare, read_screen

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
