"""What every table of the configuration file is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, get_args, get_origin

from pydantic import Field

from trajmill.schemas.spec import Spec

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class Section(Spec):
    """A table of the file; a key that is not listed is an error."""


KeyPath = tuple[str, ...]
ANY_NAME = "NAME"
"""Stands in a key path for the name that the user gives a table, e.g. `endpoints.NAME.model`."""


def section_of(annotation: Any) -> type[Spec] | None:
    """The section that a field holds, be it optional or one of several by name; None for a plain value."""
    candidates = get_args(annotation) or (annotation,)
    found = (each for each in candidates if isinstance(each, type) and issubclass(each, Spec))
    return next(found, None)


def section_at(root: type[Spec], keys: Iterable[str]) -> type[Spec]:
    """The section that some keys lead to; names given by the user are passed over.

    Raises:
        KeyError: there is no such section.
    """
    section, names = root, iter(keys)
    for name in names:
        annotation = section.model_fields[name].annotation
        inner = section_of(annotation)
        if inner is None:
            raise KeyError(name)
        section = inner
        if get_origin(annotation) is dict:
            next(names, None)
    return section


def key_paths(section: type[Spec], prefix: KeyPath = ()) -> list[KeyPath]:
    """Every key as the names that lead to it, sections themselves left out."""
    found: list[KeyPath] = []
    for name, info in section.model_fields.items():
        inner = section_of(info.annotation)
        if inner is None:
            found.append((*prefix, name))
        else:
            by_name = (ANY_NAME,) if get_origin(info.annotation) is dict else ()
            found += key_paths(inner, (*prefix, name, *by_name))
    return found
