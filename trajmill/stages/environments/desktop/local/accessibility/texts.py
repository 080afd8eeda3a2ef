"""Reads the texts of objects."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.stages.environments.desktop.local.accessibility.atspi import Reference, property_call
from trajmill.stages.environments.desktop.local.accessibility.bus import Bus

_LONGEST = 4000


def read_texts(bus: Bus, references: Sequence[Reference], seconds: float) -> list[str]:
    """The text of each object; a long text is cut, and an object without text gives an empty one.

    The lengths are read first: GTK cuts a range that ends after the text, but LibreOffice then answers with an error.

    Args:
        bus: the accessibility bus.
        references: objects, which need not have the `Text` interface.
        seconds: time limit of each of the two groups of calls.
    """
    counts = bus.ask([property_call(each, "Text", "CharacterCount") for each in references], seconds)
    lengths = [count[0][1] if count else 0 for count in counts]
    filled = [place for place, length in enumerate(lengths) if length > 0]
    calls = [references[place].call("Text", "GetText", "ii", 0, min(lengths[place], _LONGEST)) for place in filled]
    texts = [""] * len(references)
    for place, answer in zip(filled, bus.ask(calls, seconds), strict=True):
        texts[place] = answer[0] if answer else ""
    return texts
