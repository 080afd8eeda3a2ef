"""What a check has found."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    """What was checked, e.g. `disk`."""
    text: str
    """What was found."""
    mend: str = ""
    """What mends it; empty if nothing is wrong."""

    @property
    def is_wrong(self) -> bool:
        """Whether something has to be mended."""
        return bool(self.mend)

    def line(self) -> str:
        """One line for a terminal."""
        return f"{'WRONG' if self.is_wrong else 'ok':<6}{self.what}: {self.text}" + (
            f"; {self.mend}" if self.mend else ""
        )
