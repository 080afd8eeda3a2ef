from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, end_to_end_prompt
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.candidates import FLAGS, KINDS
from trajmill.stages.models.embedded.model import reply_for, untrained_network
from trajmill.stages.models.embedded.policy_network import NetworkShape
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput, bags, collate
from trajmill.stages.models.embedded.words import code_of
from trajmill.stages.training.embedded.augmentation import Detour, detours
from trajmill.stages.training.embedded.lessons import LessonStep, SeenScreen, Turn, lesson_steps
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.embedded.train import lessons, train_network

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
            said = end_to_end_prompt(instruction, None, conclusions)
            raw = GuiOwlMobile().render(reply, native_frame(SIZE))
            self.turns.append(Turn("", said, raw, screen_id, 1.0, instruction, index))
            conclusions.append(reply.conclusion)

    def steps(self) -> list[LessonStep]:
        steps = lesson_steps(self.turns, self.screens, self.reader)
        assert len(steps) == len(self.turns)
        return steps


SCREENS = {
    "launcher": screen("Home screen", "icon", "Gallery", "Clock"),
    "gallery": screen("Gallery", "list_item", "Holiday", "Pets"),
    "holiday": screen("Holiday", "list_item", "Palm beach", "Old town"),
    "pets": screen("Pets", "list_item", "Muddy dog"),
    "clock": screen("Clock", "button", "Alarms", "World", "Reset"),
    "alarms": screen("Alarms", "list_item", "07:00"),
    "world": screen("World", "list_item", "Lima"),
    "picture": screen("Palm beach", "menu_item", menus=("File", "Edit")),
    "file": screen("Palm beach", "menu_item", "Delete", menus=("File", "Edit")),
    "edit": screen("Palm beach", "menu_item", "Turn", menus=("File", "Edit")),
}
DONE = FLAGS.index("done_once")


def attempts() -> Attempts:
    made = Attempts(SCREENS)
    made.add("show Palm beach", ("launcher", "Gallery"), ("gallery", "Holiday"), ("holiday", "Palm beach"))
    made.add("show Muddy dog", ("gallery", "Pets"), ("pets", "Muddy dog"))
    made.add("stop the alarm", ("launcher", "Clock"), ("clock", "Alarms"), ("alarms", "07:00"))
    made.add("show Lima", ("clock", "World"), ("world", "Lima"))
    made.add("forget all", ("clock", "Reset"), ("clock", ""))
    made.add("delete it", ("picture", "File"), ("file", "Delete"))
    made.add("turn it", ("picture", "Edit"), ("edit", "Turn"))
    return made


def kind(lesson: Detour) -> str:
    return KINDS[int(lesson.situation.kinds[lesson.label])]


def on_screen(title: str) -> list[Detour]:
    made = attempts()
    words = made.reader.lexicon.ids_of(title).tolist()
    found = detours(made.steps(), SCREENS, made.reader, 1.0, seed=0)
    return [each for each in found if each.situation.title.tolist() == words]


def test_what_leads_to_a_wrong_page_is_left_and_the_right_entry_is_pressed_after_it() -> None:
    made = attempts()
    holiday, pets = (made.reader.lexicon.ids_of(name).tolist()[0] for name in ("Holiday", "Pets"))
    (back,) = on_screen("Pets")
    assert kind(back) == "back" and back.left_app == 0
    assert pets in back.situation.last.tolist()
    right = next(each for each in on_screen("Gallery") if each.label == 0)
    assert right.situation.texts[:2, 0].tolist() == [holiday, pets]
    assert right.situation.flags[:2, DONE].tolist() == [0.0, 1.0], "Pets was opened in vain"
    world, clock = ({kind(each) for each in on_screen(title)} for title in ("World", "Clock"))
    assert world == {"back"} and clock == {"home", "button"}, "Reset does something, so no way leads back from it"


def test_an_app_without_what_is_sought_is_left_for_the_launcher() -> None:
    home = [each for each in on_screen("Gallery") if each.left_app]
    assert {kind(each) for each in home} == {"home"}
    assert {each.left_app for each in home} == {code_of("press gallery")}
    right = on_screen("Home screen")
    assert {kind(each) for each in right} == {"icon"} and {each.left_app for each in right} == {0}
    assert all(each.situation.flags[:2, DONE].tolist()[1 - each.label] == 1.0 for each in right)


NOTES = {
    "notes": screen("Notes", "list_item", "Bread recipe", "Delete files"),
    "note": screen("Bread recipe", "button", "Move note", "Delete note", "Pin note"),
    "renamed": screen("Bread recipe", "button", "Transfer", "Erase", "Fix"),
}


def test_pairs_that_no_lesson_had_do_not_count() -> None:
    found, network = lessons(attempts().turns, SCREENS), untrained_network(0)
    asked = found.situations, network.word_vectors(found.bags), found.bags.weights
    before = network(*asked)
    torch.nn.init.ones_(network.pairs.table.weight)
    assert torch.equal(network(*asked), before)
    network.pairs.meet(found.situations)
    assert not torch.equal(network(*asked), before)


@pytest.mark.slow
def test_a_control_with_another_label_is_known_by_its_spot() -> None:
    right, made = [], Attempts(NOTES)
    for wish, label in (("move", "Move note"), ("delete", "Delete note"), ("pin", "Pin note")):
        made.add(f"{wish} my Bread recipe", ("notes", "Bread recipe"), ("note", label))
    for share in (0.0, 0.5):
        network = untrained_network(0, NetworkShape(width=16, word_width=16, layers=1, heads=2))
        recipe = EmbeddedSftSpec(min_updates=60, max_updates=60, renamed_controls=share)
        train_network(network, lessons(made.turns, NOTES), recipe, seed=0)
        asked = made.read("renamed", "delete my Bread recipe", ('Tapped "Bread recipe" on "Notes".',))
        words = bags(made.reader.lexicon, range(len(made.reader.lexicon.buckets)))
        with torch.no_grad():
            logits = network(collate([asked.situation]), network.word_vectors(words), words.weights)
        erase = next(at for at, candidate in enumerate(asked.candidates) if candidate.text == "Erase")
        right.append(logits[0].softmax(-1)[erase].item())
    assert right[1] > 0.5 > right[0]
