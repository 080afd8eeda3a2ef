"""Names that a user may mistype: the nearest known one for messages, and fields that accept only known names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from pydantic import AfterValidator

from trajmill.schemas.errors import BadInputError

MOST_LISTED = 20
"""Most known names in a message."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a mistyped one; None if none is similar."""
    names = list(known)
    part_of = [each for each in names if name.casefold() in each.casefold()] if len(name) > 2 else []
    close = part_of or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
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
    return f"there {'are' if names[1:] else 'is only'} {', '.join(names[:MOST_LISTED])}{rest}"


def refuse_unknown(names: Iterable[object], known: Iterable[str], what: str) -> None:
    """Raise BadInputError for a name that is not known; `what` begins its message, e.g. `there is no app`."""
    listed = list(known)
    for name in names:
        if name not in listed:
            raise BadInputError(f"{what} {name!r:.60}; {instead_of(str(name), listed)}")


def the_one(part: str, known: Iterable[str], unknown: str) -> str:
    """Return the name itself, else the only known one that contains it. Raises BadInputError for none or several."""
    names = list(known)
    found = [part] if part in names else [name for name in names if part and part in name]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInputError(f"{part!r} may be {' or '.join(found[:MOST_LISTED])}; give more of it")
    raise BadInputError(f"{unknown}; {instead_of(part, names)}")


def known_by(look_up: Callable[[str], object]) -> AfterValidator:
    """A pydantic annotation of texts: a name is valid unless `look_up` raises BadInputError."""

    def known(names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (names,) if isinstance(names, str) else names:
            try:
                look_up(name)
            except BadInputError as error:
                raise ValueError(str(error)) from None
        return names

    return AfterValidator(known)
