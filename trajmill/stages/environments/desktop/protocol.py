"""The names that client and server share: an HTTP header, and the XML of OSWorld's accessibility tree.

The tags of the XML are AT-SPI roles.
"""

from __future__ import annotations

from typing import NamedTuple

TOKEN_HEADER = "X-Desktop-Token"
"""HTTP header with the secret that a local desktop requires."""
_NAMESPACE = "https://accessibility.ubuntu.example.org/ns"
STATE = f"{{{_NAMESPACE}/state}}"
"""Prefix of attributes such as `showing`, which are `true` if present."""
COMPONENT = f"{{{_NAMESPACE}/component}}"
"""Prefix of `screencoord` and `size`, each `(a, b)` in pixels."""
VALUE = f"{{{_NAMESPACE}/value}}"
"""Prefix of `value`, the number that a slider or a spin button shows."""


class CommandResult(NamedTuple):
    """Output and exit status of a command that has ended."""

    output: str
    error: str
    code: int
