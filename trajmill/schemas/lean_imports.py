"""Leaves out what libraries import wherever it is installed, though nothing here uses it.

`datasets` brings pandas, which takes a quarter of a second and 53 MiB in each process that imports it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

import pyarrow as pa

_PANDAS: Final = "pandas"


@contextmanager
def without_libraries(names: Collection[str]) -> Iterator[None]:
    """Inside, this thread finds the libraries not installed; whoever imports them later gets them."""
    finder = _NotInstalled(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def keep_pandas_from_arrow() -> None:
    """Let pyarrow do without pandas until somebody else imports it.

    It imports pandas with the first array that it makes, and does not look again if there is none.
    """
    if _PANDAS not in sys.modules:
        with without_libraries({_PANDAS}):
            pa.array([])
        sys.meta_path.insert(0, _ShowsArrowPandas())


class _NotInstalled:
    """Takes libraries for ones that are not installed, in the thread that made it."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in self._names and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)


class _ShowsArrowPandas:
    """Lets pyarrow look for pandas once more when it has been imported, so that it takes data frames as always."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _PANDAS else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_show(module: ModuleType) -> None:
            load(module)
            pa.array([]).to_pandas()

        spec.loader.exec_module = load_and_show  # type: ignore[method-assign]
        return spec
