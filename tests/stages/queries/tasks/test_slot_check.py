from __future__ import annotations

from random import Random

import pytest

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.queries.samples import chosen, described
from trajmill.stages.environments.simulated.annotations import KnownSlot, known_slots
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.model_writer import (
    LONGEST_INSTRUCTION,
    LONGEST_RAW,
    InstructionCheck,
    check_instruction,
    vocabulary_of,
)
from trajmill.stages.queries.tasks.sampling import TaskGoal, draw_phrasing, paths, sample
from trajmill.stages.queries.templates import explicit_instruction


def _checked(task: TaskGraph, drawn: TaskGoal, text: str, longest: int = LONGEST_INSTRUCTION) -> InstructionCheck:
    return check_instruction(text, known_slots(task, drawn.asked), vocabulary_of(described(task, drawn)), longest)


def _large_pad_thai(order: TaskGraph, text: str) -> tuple[str, ...]:
    drawn = chosen(order, dish="Pad Thai", size="Large", spicy=True, quantity=2, note="ring twice")
    return _checked(order, drawn, text).problems


@pytest.mark.parametrize(
    "text",
    [
        'Get me two big Pad Thai from Bites, extra spicy, with the note "ring twice".',
        'Order 2 Pad Thai, size LARGE, make it extra spicy, note for the kitchen: "Ring twice."',
        "I'm hungry, so I'd like 2 large Pad Thai, extra spicy, and add the note “ring twice”.",
        'Order from Noodles: Pad Thai, large, extra spicy, quantity 2, note "ring twice", then press "Place order".',
    ],
)
def test_an_instruction_that_says_all_of_it_is_let_through(order: TaskGraph, text: str) -> None:
    assert _large_pad_thai(order, text) == ()


RIGHT = 'Order 2 large Pad Thai, extra spicy, note "ring twice".'


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        (RIGHT, "", "it is empty"),
        (RIGHT, "Pad Thai " * 50, "it has 450 characters; at most 400 are allowed"),
        ("large ", "", 'size is lost: say "large" or "big" or "Large"'),
        ("large", "small", 'size is changed: "small" is another value; say "large" or "big" or "Large"'),
        ("Thai", "Thai Deluxe", 'the name "Deluxe" is invented: the task does not have it'),
        ("spicy", "spicy, for Anna's party", 'the name "Anna\'s" is invented: the task does not have it'),
        ("spicy", "spicy, for 19:30", 'the number "19:30" is invented: the task does not have it'),
        ("Thai", "Thai for three people", 'the number "three" is invented: the task does not have it'),
        ("Thai", "Thai for tomorrow", 'the time "tomorrow" is invented: the task does not have it'),
        ("Thai", "Thai to the office", 'place is not to be told, so "office" must not stand there'),
        ("extra", "not extra", 'spicy is changed: "not" denies it, but it is wanted'),
        (
            "twice",
            "twice and wait",
            '"ring twice and wait" stands in quotes, but the task does not have',
        ),
        ('"ring twice"', "ring twice", 'note must stand in double quotes, nothing else with it: "ring twice"'),
        ("Pad", "Beef Ramen and Pad", 'dish is changed: "Beef Ramen" is another value; say "Pad Thai"'),
    ],
)
def test_lost_invented_or_changed_slots_are_named(order: TaskGraph, right: str, wrong: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in _large_pad_thai(order, RIGHT.replace(right, wrong)))


def test_the_words_of_a_slot_are_those_of_the_text(order: TaskGraph) -> None:
    drawn = chosen(order, dish="Pad Thai", size="Large", quantity=2)
    said = _checked(order, drawn, "Two BIG pad thai please.").said
    assert said == {"dish": "pad thai", "size": "BIG", "quantity": "Two"}


def test_a_slot_that_is_not_asked_for_must_not_be_mentioned(order: TaskGraph) -> None:
    drawn = chosen(order, dish="Pad Thai")
    assert _checked(order, drawn, "Order Pad Thai, extra spicy.").problems == (
        'spicy is not to be told, so "extra spicy" must not stand there',
    )
    assert _checked(order, drawn, "Order Pad Thai, size medium.").problems == (
        'size is not to be told, so "medium" must not stand there',
    )


def test_a_value_inside_a_longer_one_does_not_count(world: World) -> None:
    calendar = task_of(world, "calendar.create")
    drawn = chosen(calendar, day="Tuesday", time="10:00", title="Swim", reminder="10 minutes before")
    text = 'Put "Swim" into the Calendar on Tuesday at 10:00 and remind me 10 minutes before.'
    assert _checked(calendar, drawn, text).problems == ()
    late = text.replace("10:00", "10:30")
    assert _checked(calendar, drawn, late).problems[0].startswith("time is lost: ")


@pytest.mark.parametrize(("time", "fits"), [("7:10", True), ("07:10", True), ("7:10 pm", False), ("17:10", False)])
def test_a_time_of_the_other_half_of_the_day_is_another_time(world: World, time: str, fits: bool) -> None:
    off = task_of(world, "clock.off")
    problems = _checked(off, chosen(off, alarm="07:10"), f"Turn off the alarm at {time}.").problems
    assert (problems == ()) is fits


def test_a_name_may_be_in_the_genitive(world: World) -> None:
    send = task_of(world, "messages.send")
    drawn = chosen(send, contact="Alice Moreau", text="call me")
    assert _checked(send, drawn, 'Put "call me" into Alice\'s chat.').problems == ()
    assert _checked(send, drawn, 'Put "call me" into Alicia\'s chat.').problems != ()


def test_one_place_does_not_count_for_two_slots() -> None:
    slots = [KnownSlot(name, name, "stepper", ("2", "two"), ()) for name in ("copies", "pages")]
    assert check_instruction("Print 2 of them.", slots, ()).problems == ('pages is lost: say "2" or "two"',)
    assert check_instruction("Print 2 of two.", slots, ()).problems == ()


def test_a_carried_value_must_not_be_told(world: World) -> None:
    task = task_of(world, "from_mail.redeem")
    drawn = sample(task, paths(task), Random(1))
    mail, code = drawn.asked["mail"], drawn.asked["code"]
    assert _checked(task, drawn, f"Redeem the code from the mail {mail} in Wallet.").problems == ()
    assert (
        f'code is not to be told, so "{code}" must not stand there'
        in _checked(task, drawn, f"Redeem the code {code} from the mail {mail} in Wallet.").problems
    )


@pytest.mark.slow
def test_instructions_written_by_people_pass_the_check(world: World) -> None:
    """The templates of the app files were written by hand: all of them say what they should."""
    checked = 0
    for task in world.tasks():
        for seed in range(6):
            drawn = sample(task, paths(task), Random(seed))
            metadata = described(task, drawn)
            raw = explicit_instruction(metadata)
            text = draw_phrasing(task.spec, metadata, seed % 2 == 1, seed).expand()
            assert _checked(task, drawn, raw, LONGEST_RAW).problems == (), raw
            # The one clash in them: a note called Plan, which is read `to plan` something.
            if drawn.asked.get("note") is None or "Use Calendar to plan" not in text:
                assert _checked(task, drawn, text).problems == (), text
            checked += 1
    assert checked > 300
