"""Repairs texts of models and screens that no file could store."""

from __future__ import annotations

import re

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "�"


def storable(text: str) -> str:
    """The text with U+FFFD in place of characters that UTF-8 or a database cannot store: lone surrogates and NUL."""
    # Looking at each character takes a hundred times as long.
    return text if text.isascii() and "\0" not in text else _UNFIT.sub(_REPLACEMENT, text)
