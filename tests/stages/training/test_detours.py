from __future__ import annotations

import pytest
import torch

from tests.stages.training.attempts import Attempts, screen
from trajmill.stages.models.embedded.candidates import FLAGS, KINDS
from trajmill.stages.models.embedded.words import code_of
from trajmill.stages.training.embedded.augmentation import Detour, detours
from trajmill.stages.training.embedded.train import lessons

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


def test_of_a_wrong_menu_the_right_one_is_opened_at_once() -> None:
    lessons_of_menus = on_screen("Palm beach")
    assert {kind(each) for each in lessons_of_menus} == {"menu"}
    assert all(each.situation.flags[each.label, DONE] == 0.0 for each in lessons_of_menus)
    assert all(each.situation.flags[:, DONE].sum() == 1.0 for each in lessons_of_menus)


def test_an_entry_behind_which_stands_what_is_sought_is_no_wrong_one() -> None:
    both = {**SCREENS, "pets": screen("Pets", "list_item", "Palm beach", "Muddy dog")}
    made = Attempts(both)
    made.add("show Palm beach", ("gallery", "Holiday"), ("holiday", "Palm beach"))
    made.add("show Muddy dog", ("gallery", "Pets"), ("pets", "Muddy dog"))
    titles = {tuple(each.situation.title.tolist()) for each in detours(made.steps(), both, made.reader, 1.0, seed=0)}
    assert tuple(made.reader.lexicon.ids_of("Pets")) not in titles
    assert tuple(made.reader.lexicon.ids_of("Holiday")) in titles


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_only_a_share_of_the_presses_gets_detours(share: float) -> None:
    made = attempts()
    made.turns *= 40
    for number, turn in enumerate(made.turns):
        made.turns[number] = turn._replace(trajectory_id=f"{turn.trajectory_id} {number // 11}")
    all_of_them, some = (len(detours(made.steps(), SCREENS, made.reader, each, seed=0)) for each in (1.0, share))
    assert abs(some / all_of_them - share) < 0.1


def test_detours_are_lessons_behind_the_others() -> None:
    made = attempts()
    alone, more = lessons(made.turns, SCREENS), lessons(made.turns, SCREENS, detour_share=1.0, seed=0)
    assert len(more) > len(alone) == len(made.turns)
    assert more.labels[: len(alone)].equal(alone.labels)
    assert more.left_apps[: len(alone)].sum() == 0 and set(more.left_apps.tolist()) > {0}
    assert more.weights.equal(torch.ones(len(more)))
