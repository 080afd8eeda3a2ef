"""The scripts that run in pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def read_script(name: str) -> str:
    """The text of a script: a function of the browser's language, or statements.

    Args:
        name: of its file, without `.js`.
    """
    return files(__package__).joinpath(f"{name}.js").read_text(encoding="utf-8")
