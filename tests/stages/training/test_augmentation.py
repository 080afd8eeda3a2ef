from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest
import torch

from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, compose
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.batch import bags, collate
from trajmill.stages.models.embedded.candidates import FLAGS, KINDS
from trajmill.stages.models.embedded.model import reply_for, untrained_network
from trajmill.stages.models.embedded.policy_network import NetworkShape, PolicyNetwork
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput
from trajmill.stages.models.embedded.words import code_of
from trajmill.stages.training.embedded.augmentation import (
    App,
    Detour,
    apps_of,
    detours,
    naming,
    rename,
    strange_apps,
)
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
            said = compose(instruction, None, conclusions)
            raw = GuiOwlMobile().render(reply, native_frame(SIZE))
            self.turns.append(Turn("", said, raw, screen_id, 1.0, instruction, index))
            conclusions.append(reply.conclusion)

    def steps(self) -> list[LessonStep]:
        steps = lesson_steps(self.turns, self.screens, self.reader)
        assert len(steps) == len(self.turns)
        return steps


LAUNCHER = screen("Home screen", "icon", "Gallery", "Clock")
SCREENS = {
    "launcher": LAUNCHER,
    "gallery": screen("Gallery", "list_item", "Holiday", "Pets"),
    "holiday": screen("Holiday", "list_item", "Palm beach", "Old town"),
    "pets": screen("Pets", "list_item", "Muddy dog"),
    "clock": screen("Clock", "button", "Alarms"),
    "picture": screen("Palm beach", "menu_item", menus=("File", "Edit")),
    "file": screen("Palm beach", "menu_item", "Delete", menus=("File", "Edit")),
    "edit": screen("Palm beach", "menu_item", "Turn", menus=("File", "Edit")),
}
DONE = FLAGS.index("done_once")


def attempts() -> Attempts:
    made = Attempts(SCREENS)
    made.add("show Palm beach", ("launcher", "Gallery"), ("gallery", "Holiday"), ("holiday", "Palm beach"))
    made.add("show Muddy dog", ("gallery", "Pets"), ("pets", "Muddy dog"))
    made.add("list the alarms", ("launcher", "Clock"), ("clock", "Alarms"))
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


def test_a_wrong_list_item_is_left_and_the_right_one_is_opened_after_it() -> None:
    made = attempts()
    holiday, pets = (made.reader.lexicon.ids_of(name).tolist()[0] for name in ("Holiday", "Pets"))
    (back,) = on_screen("Pets")
    assert kind(back) == "back" and back.left_app == 0
    assert pets in back.situation.last.tolist()
    right = next(each for each in on_screen("Gallery") if each.label == 0)
    assert right.situation.texts[:2, 0].tolist() == [holiday, pets]
    assert right.situation.flags[:2, DONE].tolist() == [0.0, 1.0], "Pets was opened in vain"


def test_an_app_without_what_is_sought_is_left_for_the_launcher() -> None:
    home = [each for each in on_screen("Gallery") if each.left_app]
    assert {kind(each) for each in home} == {"home"}
    assert {each.left_app for each in home} == {code_of("press gallery")}
    right = on_screen("Home screen")
    assert {kind(each) for each in right} == {"icon"} and {each.left_app for each in right} == {0}
    assert all(each.situation.flags[:2, DONE].tolist()[1 - each.label] == 1.0 for each in right)


def test_an_entry_behind_which_stands_what_is_sought_is_no_wrong_one() -> None:
    both = {**SCREENS, "pets": screen("Pets", "list_item", "Palm beach", "Muddy dog")}
    made = Attempts(both)
    made.add("show Palm beach", ("gallery", "Holiday"), ("holiday", "Palm beach"))
    made.add("show Muddy dog", ("gallery", "Pets"), ("pets", "Muddy dog"))
    titles = {tuple(each.situation.title.tolist()) for each in detours(made.steps(), both, made.reader, 1.0, seed=0)}
    assert tuple(made.reader.lexicon.ids_of("Pets")) not in titles
    assert tuple(made.reader.lexicon.ids_of("Holiday")) in titles


def test_only_a_share_of_the_presses_gets_detours() -> None:
    made = attempts()
    made.turns = [turn._replace(trajectory_id=str(number)) for number in range(20) for turn in made.turns]
    every, half, none = (len(detours(made.steps(), SCREENS, made.reader, share, seed=0)) for share in (1.0, 0.5, 0.0))
    assert abs(half / every - 0.5) < 0.1 and none == 0


def test_detours_are_lessons_behind_the_others() -> None:
    made = attempts()
    alone, more = lessons(made.turns, SCREENS), lessons(made.turns, SCREENS, detour_share=1.0, seed=0)
    assert len(more) > len(alone) == len(made.turns)
    assert more.labels[: len(alone)].equal(alone.labels)
    assert more.left_apps[: len(alone)].sum() == 0 and set(more.left_apps.tolist()) > {0}
    assert more.weights.equal(torch.ones(len(more)))


APPS = ("Mail", "Clock", "Stride")
WISHES = {"Mail": "write a letter", "Clock": "set an alarm"}
"""What users want of the apps that attempts use."""
SAYINGS = ("please {wish}", "{wish} now", "use {app} to {wish}")
PHONE = {
    "launcher": screen("Home screen", "icon", *APPS),
    "Mail": screen("Mail", "button", "Send", "Options"),
    "Clock": screen("Clock", "button", "Ring", "Options"),
    "Stride": screen("Stride", "button", "Goals"),
}
SMALL = NetworkShape(width=16, word_width=16, layers=1, heads=2)


def used() -> Attempts:
    made = Attempts(PHONE)
    for app, saying in product(WISHES, SAYINGS):
        made.add(saying.format(app=app, wish=WISHES[app]), ("launcher", app), (app, ""))
    return made


def by_icon(apps: tuple[App, ...]) -> dict[str, App]:
    names = {code_of(f"press {name}".casefold()): name for name in APPS}
    return {names[app.icon]: app for app in apps}


def test_apps_that_no_attempt_uses_look_strange_in_every_update() -> None:
    made = used()
    for share, names in ((0.0, {"Stride"}), (1.0, set(APPS))):
        strange = strange_apps(apps_of(made.steps()), share, torch.Generator().manual_seed(0))
        assert set(by_icon(tuple(strange))) == names
    made.add("join a plan", ("launcher", "Stride"), ("Stride", ""))
    assert not by_icon(apps_of(made.steps()))["Stride"].is_used, "it may be a mistake"
    made.add("join another plan", ("launcher", "Stride"), ("Stride", ""))
    assert by_icon(apps_of(made.steps()))["Stride"].is_used


def chances(
    network: PolicyNetwork,
    screen_id: str,
    instruction: str,
    *conclusions: str,
    screens: Mapping[str, SeenScreen] = PHONE,
) -> dict[str, float]:
    """How likely the policy takes each candidate, by its text, else by its verb."""
    made = Attempts(screens)
    asked = made.read(screen_id, instruction, conclusions)
    words = bags(made.reader.lexicon, range(len(made.reader.lexicon.buckets)))
    with torch.no_grad():
        logits = network(collate([asked.situation]), network.word_vectors(words), words.weights)
    names = [candidate.text or candidate.verb for candidate in asked.candidates]
    return dict(zip(names, logits[0].softmax(-1).tolist(), strict=False))


@pytest.mark.slow
def test_an_app_that_no_lesson_opens_is_found_by_its_name_and_by_exclusion() -> None:
    network = untrained_network(0, SMALL)
    train_network(network, lessons(used().turns, PHONE), EmbeddedSftSpec(min_updates=80, max_updates=80), seed=0)
    assert chances(network, "launcher", "write a letter")["Mail"] > 0.5
    assert chances(network, "launcher", "use Stride to write a letter")["Stride"] > 0.5
    assert chances(network, "launcher", "join a plan")["Stride"] > 0.05, "no lesson says that it is wrong"


@pytest.mark.slow
def test_leaving_an_app_is_not_learned_while_it_looks_unknown() -> None:
    made = used()
    for app, button in (("Mail", "Send"), ("Clock", "Ring")):
        for number in range(3):
            made.add(f"{WISHES[app]} {number}", ("launcher", app), (app, button))
    found = lessons(made.turns, PHONE, detour_share=1.0, seed=0)
    assert (found.left_apps > 0).any()
    weights = []
    for share in (0.0, 1.0):
        network = untrained_network(0, SMALL)
        recipe = EmbeddedSftSpec(min_updates=40, max_updates=40, strange_apps=share)
        train_network(network, found, recipe, seed=0)
        weights.append(chances(network, "Clock", "write a letter", 'Tapped "Clock" on "Home screen".')["home"])
    assert weights[0] > weights[1] + 0.01


NOTE = screen("Bread recipe", "button", "Move note", "Delete note", "Pin note")
NOTES = {
    "notes": screen("Notes", "list_item", "Bread recipe", "Delete files"),
    "note": NOTE,
    "renamed": screen("Bread recipe", "button", "Transfer", "Erase", "Fix"),
}


def noted() -> Attempts:
    made = Attempts(NOTES)
    for wish, label in (("move", "Move note"), ("delete", "Delete note"), ("pin", "Pin note")):
        made.add(f"{wish} my Bread recipe", ("notes", "Bread recipe"), ("note", label))
    return made


def test_renamed_labels_are_unknown_words_and_nothing_else_changes() -> None:
    found = lessons(noted().turns, NOTES)
    labels, vectors = naming(found.situations, found.bags.weights), torch.zeros(len(found.bags.weights), 4)
    draw = torch.Generator().manual_seed(0)
    same, longer = rename(found.situations, vectors, labels[:0], 1.0, draw)
    assert all(torch.equal(one, other) for one, other in zip(same, found.situations, strict=True))
    for _ in range(4):
        changed, longer = rename(found.situations, vectors, labels, 1.0, draw)
        is_new = changed.texts >= len(vectors)
        assert int(changed.texts.max()) == len(longer) - 1
        assert (changed.kinds[is_new.any(-1)] == KINDS.index("button")).all(), "entries of lists are data"
        assert torch.equal(changed.codes == 0, (found.situations.codes == 0) | is_new.any(-1))
        assert torch.equal(changed.instruction, found.situations.instruction)
        assert torch.equal(changed.title, found.situations.title)


@pytest.mark.slow
def test_a_control_with_another_label_is_known_by_its_spot() -> None:
    right = []
    for share in (0.0, 0.5):
        network = untrained_network(0, SMALL)
        recipe = EmbeddedSftSpec(min_updates=60, max_updates=60, renamed_controls=share)
        train_network(network, lessons(noted().turns, NOTES), recipe, seed=0)
        before = ('Tapped "Bread recipe" on "Notes".',)
        found = chances(network, "renamed", "delete my Bread recipe", *before, screens=NOTES)
        right.append(found["Erase"])
    assert right[1] > 0.5 > right[0]
