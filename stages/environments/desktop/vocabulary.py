"""The XML vocabulary of an OSWorld machine's accessibility tree; the tag of an element is its AT-SPI role."""

from __future__ import annotations

_NAMESPACE = "https://accessibility.ubuntu.example.org/ns"
STATE = f"{{{_NAMESPACE}/state}}"
"""Prefix of attributes such as `showing`, each `true` where present."""
COMPONENT = f"{{{_NAMESPACE}/component}}"
"""Prefix of `screencoord` and `size`, each `(a, b)` in pixels."""
VALUE = f"{{{_NAMESPACE}/value}}"
"""Prefix of `value`, the number that a slider or a spin button shows."""
