"""The scripts that run in pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def read_script(name: str) -> str:
    """The text of a script in JavaScript: a function, or statements.

    Args:
        name: name of its file, without `.js`.
    """
    return files(__package__).joinpath(f"{name}.js").read_text(encoding="utf-8")
