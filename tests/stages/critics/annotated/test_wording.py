from __future__ import annotations

import pytest

from trajmill.stages.critics.annotated.task import (
    says_no,
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
