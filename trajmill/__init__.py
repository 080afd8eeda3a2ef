"""trajmill produces trajectories of GUI agents, and makes the agent that produces them better, round after round.

`__init__.pyi` lists the public API; everything else in the package is private and may change with any version. The
notebook `docs/notebook.md` shows how to use it. A name is imported when it is first used, so that `import trajmill` is
fast.
"""

import ast
from importlib import import_module
from pathlib import Path

_IMPORTS = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
_HOMES = {each.name: line.module for line in _IMPORTS if isinstance(line, ast.ImportFrom) for each in line.names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import a name of the public API from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(str(_HOMES[name])), name)


def __dir__() -> list[str]:
    return __all__
