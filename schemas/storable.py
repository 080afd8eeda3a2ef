"""Text of models and screens made fit to be stored: a model may say anything, and no row may break on it."""

from __future__ import annotations

import re

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "�"


def storable(text: str) -> str:
    """The text with U+FFFD for what UTF-8 or a database cannot hold: lone surrogates and NUL."""
    return _UNFIT.sub(_REPLACEMENT, text)
