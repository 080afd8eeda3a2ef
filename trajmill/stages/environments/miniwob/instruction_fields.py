"""Reads the fields of an instruction, e.g. a name and a date, with the wheel's own patterns."""

from __future__ import annotations

from miniwob.fields import FIELD_EXTRACTORS


def page_fields(page: str, utterance: str, given: dict[str, object] | None) -> tuple[tuple[str, str], ...]:
    """The names and values of an instruction's fields, in its order.

    Args:
        page: name of the page.
        utterance: its instruction, as the page gives it.
        given: the fields that some pages give themselves; None if the page does not.

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
    except ValueError:  # the wheel's patterns know most wordings of a page, not all
        return ()
