from __future__ import annotations

import pytest

from trajmill.stages.critics.annotated.task import (
    CONFIRMS,
    REPEATABLE,
    is_said,
    mentions,
    says_no,
    shared_stems,
    title_says_done,
)


@pytest.mark.parametrize(
    "title", ["Order placed", "Mail sent", "Saved", "You left", "Purchase complete", "Now playing", "Phone topped up"]
)
def test_titles_that_mean_finished_are_recognised(title: str) -> None:
    assert title_says_done(title)


@pytest.mark.parametrize(
    "title", ["Delete this alarm?", "Saved places", "Past orders", "Feed the cat", "Settings", "Need help", ""]
)
def test_titles_that_do_not_mean_finished_are_passed_over(title: str) -> None:
    assert not title_says_done(title)


def test_descriptions_that_mean_finished_are_recognised() -> None:
    assert CONFIRMS.search("Confirms the order.")
    assert CONFIRMS.search("The timer that was started.")
    assert not CONFIRMS.search("One alarm, to turn off or delete.")
    assert not CONFIRMS.search("Asks whether the alarm should be deleted.")


@pytest.mark.parametrize(
    ("label", "instruction", "off"),
    [
        ("Battery saver", "Settings: battery saver on, screen off after 30 seconds.", False),
        ("Location", "No app needs my location, switch it off in Settings.", True),
        ("Location", "The phone should have location off, see Settings.", True),
        ("Newsletter", "I get the newsletter every day, stop it.", True),
        ("Airplane mode", "Turn on airplane mode and turn the sound off.", False),
        ("Music", "Rides should have no music, see the ride options.", True),
    ],
)
def test_an_instruction_to_switch_off_is_recognised(label: str, instruction: str, off: bool) -> None:
    assert says_no(label, instruction) is off


def test_forms_of_a_word_are_one_word() -> None:
    assert shared_stems("Pin chat", "I want Chess Night pinned") == {"pin"}
    assert not shared_stems("the", "the")
    assert is_said("Battery saver", "switch the saver of the battery on")
    assert not is_said("Extra spicy", "spicy please")
    assert not is_said("", "anything")


def test_values_are_mentioned_as_whole_words() -> None:
    assert mentions("Size: Large", "large")
    assert not mentions("Largest order", "Large")
    assert mentions("Gift wrap: on", "true") and mentions("Extra spicy: yes", "on")
    assert not mentions("Gift wrap: off", "on")
    assert not mentions("anything", "")


def test_what_can_be_repeated_without_harm() -> None:
    assert REPEATABLE.search("Alarm deleted") and REPEATABLE.search("Event moved")
    assert not REPEATABLE.search("Order placed")
