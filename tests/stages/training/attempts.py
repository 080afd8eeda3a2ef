"""Writes accepted attempts on made-up screens as lesson steps of the embedded policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, compose
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.model import reply_for
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput
from trajmill.stages.training.embedded.lessons import LessonStep, SeenScreen, Turn, lesson_steps

SIZE = Size(720, 1280)


def screen(title: str, role: str, *texts: str, menus: Sequence[str] = ()) -> SeenScreen:
    rows = [(role, text) for text in texts] + [("menu", text) for text in menus]
    elements = [
        UIElement(role, text, Box(0, 100 * at, 700, 100 * at + 90), ("clickable",))
        for at, (role, text) in enumerate(rows, 1)
    ]
    return SeenScreen(SIZE, (UIElement("heading", title, Box(0, 0, 700, 60), ("title",)), *elements))


@dataclass
class Attempts:
    screens: Mapping[str, SeenScreen]
    reader: InputReader = field(default_factory=InputReader)
    turns: list[Turn] = field(default_factory=list)

    def read(self, screen_id: str, instruction: str, conclusions: Sequence[str]) -> PolicyInput:
        seen = self.screens[screen_id]
        user = UserText(instruction, (), tuple(conclusions))
        return self.reader.read(user, screen_id, seen.size, seen.elements, phone=True)

    def add(self, instruction: str, *presses: tuple[str, str]) -> None:
        conclusions: list[str] = []
        for index, (screen_id, text) in enumerate(presses):
            asked = self.read(screen_id, instruction, conclusions)
            verb = "press" if text else "finish"
            chosen = next(i for i, c in enumerate(asked.candidates) if (c.verb, c.text) == (verb, text))
            reply = reply_for(asked, chosen, UserText(instruction, (), tuple(conclusions)), phone=True)
            said = compose(instruction, None, conclusions)
            raw = GuiOwlMobile().render(reply, native_frame(SIZE))
            self.turns.append(Turn("", said, raw, screen_id, 1.0, instruction, index))
            conclusions.append(reply.conclusion)

    def steps(self) -> list[LessonStep]:
        steps = lesson_steps(self.turns, self.screens, self.reader)
        assert len(steps) == len(self.turns)
        return steps
