"""The steps of accepted attempts as the embedded policy reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, read
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.models.embedded.candidates import CandidateAction
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput


class Turn(NamedTuple):
    """One prompt, its reply and its loss weight."""

    system: str
    user: str
    reply: str
    screen_id: str
    weight: float
    trajectory_id: str
    step_index: int


class SeenScreen(NamedTuple):
    """Size and accessibility tree of a stored screen."""

    size: Size
    elements: tuple[UIElement, ...]


class LessonStep(NamedTuple):
    """One step to learn from."""

    turn: Turn
    phone: bool
    user: UserText
    policy_input: PolicyInput
    label: int
    """Index of the candidate that was chosen."""

    @property
    def chosen(self) -> CandidateAction:
        return self.policy_input.candidates[self.label]


def lesson_steps(turns: Iterable[Turn], screens: Mapping[str, SeenScreen], reader: InputReader) -> list[LessonStep]:
    found = []
    for turn in turns:
        screen = screens.get(turn.screen_id)
        if screen is None:
            continue
        phone = '"name": "computer_use"' not in turn.system
        dialect = GuiOwlMobile() if phone else GuiOwlDesktop()
        reply = dialect.parse(turn.reply, native_frame(screen.size))
        if not isinstance(reply, Reply):
            continue
        user = read(turn.user.replace(IMAGE_PLACEHOLDER, ""))
        policy_input = reader.read(user, turn.screen_id, screen.size, screen.elements, phone=phone)
        label = chosen_candidate(policy_input.candidates, reply.action, phone=phone)
        if label is not None:
            found.append(LessonStep(turn, phone, user, policy_input, label))
    return found


def chosen_candidate(candidates: Sequence[CandidateAction], action: Action, *, phone: bool) -> int | None:
    """Return the index of the candidate that does the same as an action; None if there is none.

    A press anywhere on an element counts as a press on it; of nested elements, the smallest counts.
    """
    for index, candidate in enumerate(candidates):
        if candidate.action(phone=phone) == action:
            return index
    if not isinstance(action, Click):
        return None
    verb = "open" if action.count == 2 else "press"
    under = [i for i, c in enumerate(candidates) if c.verb == verb and c.bounds.contains(action.x, action.y)]
    return min(under, key=lambda index: candidates[index].bounds.area, default=None)
