from __future__ import annotations

import pytest

from trajmill.stages.environments.simulated.drawing.canvas import font_of, undrawn


@pytest.mark.parametrize("text", ["Núñez in Málaga", "Łódź", "Привет", "Ελλάδα", "5 € → ½"])
def test_letters_of_europe_are_drawn_each_in_its_shape(text: str) -> None:
    assert undrawn(text) == ""
    letters = sorted(set(text) - {" "})
    font = font_of(text, 24)
    assert len({bytes(font.getmask(letter)) for letter in letters}) == len(letters)


def test_letters_without_a_font_are_named_once() -> None:
    assert undrawn("雨 and 雨 and 🌧!") == "雨🌧"


def test_plain_english_keeps_its_font() -> None:
    assert font_of("Hello, world", 24).getname() == ("Aileron", "Regular")
