"""Replaces `$name` and `{field}` in the texts and values of an app file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trajmill.stages.environments.simulated.app_files.app_spec import Item, Scalar

_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


def shown(value: Scalar) -> str:
    """A value as the screen shows it; true and false are `on` and `off`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def names_in(value: Scalar) -> Iterator[str]:
    """The `$name`s of a value."""
    return (match[1] for match in _NAME.finditer(value)) if isinstance(value, str) else iter(())


def fields_in(value: Scalar) -> Iterator[str]:
    """The `{field}`s of a value."""
    return (match[1] for match in _FIELD.finditer(value)) if isinstance(value, str) else iter(())


def bind(value: Scalar, values: Mapping[str, Scalar], item: Item | None = None) -> Scalar:
    """A value with its `$name`s (and `{field}`s of an item) replaced; a single name is replaced by a value of any type.

    Raises:
        KeyError: there is no such name or field.
    """
    if not isinstance(value, str):
        return value
    if item is not None and "{" in value:
        whole = _FIELD.fullmatch(value)
        if whole:
            return item[whole[1]]
        value = _FIELD.sub(lambda match: shown(item[match[1]]), value)
    if "$" not in value:
        return value
    whole = _NAME.fullmatch(value)
    if whole:
        return values[whole[1]]
    return _NAME.sub(lambda match: shown(values[match[1]]), value)


def bind_text(text: str, values: Mapping[str, Scalar], item: Item | None = None) -> str:
    """A text with its names replaced, as the screen shows it."""
    return shown(bind(text, values, item))


def bind_record(record: Item, values: Mapping[str, Scalar], item: Item | None = None) -> Item:
    """A record with the names in its values replaced."""
    return {field: bind(value, values, item) for field, value in record.items()}
