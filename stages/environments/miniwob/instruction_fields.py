"""The fields of an instruction: what it names, as the wheel's own patterns read it."""

from __future__ import annotations

from miniwob.fields import FIELD_EXTRACTORS


def page_fields(page: str, utterance: str, given: dict[str, object] | None) -> tuple[tuple[str, str], ...]:
    """Names and values, in the order of the instruction.

    Args:
        page: name of the page.
        utterance: its instruction, as the page gives it.
        given: what some pages tell themselves; None where they do not.

    Returns:
        Nothing for a page whose instruction the wheel cannot read.
    """
    if given is not None:
        return tuple((name, str(value)) for name, value in given.items())
    extractor = FIELD_EXTRACTORS.get(page)
    if extractor is None:
        return ()
    try:
        return tuple((str(name), str(value)) for name, value in extractor(utterance))
    except ValueError:  # by the wheel's patterns, which know most wordings of a page but not all
        return ()
