"""Finds the known name that is most similar to a mistyped one, for error messages."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.5
"""Least similarity (difflib's ratio, 0 to 1) at which a known name is proposed."""
MOST_LISTED = 20
"""Most known names in a message."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a mistyped one; None if none is similar."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=CUTOFF)
    return close[0] if close else None


def instead_of(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest known name, or all known names."""
    names = list(known)
    close = nearest(name, names)
    if close is not None:
        return f"did you mean {close}?"
    if not names:
        return "there are none"
    rest = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return f"there are {', '.join(names[:MOST_LISTED])}{rest}"
