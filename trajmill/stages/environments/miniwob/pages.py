"""Lists the MiniWoB++ pages, without a browser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.nearest import instead_of


def pages_folder() -> Path:
    """The folder of the task pages that the `miniwob` wheel ships.

    Raises:
        EnvironmentFailure: the wheel is not installed (class `setup`).
    """
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise EnvironmentFailure("miniwob is not installed; run `pip install 'trajmill[web]'`", FailureClass.SETUP)
    return Path(spec.origin).parent / "html" / "miniwob"


def page_names() -> list[str]:
    """Names of all pages of the wheel, in order.

    Raises:
        EnvironmentFailure: the wheel is not installed (class `setup`).
    """
    return sorted(page.stem for page in pages_folder().glob("*.html"))


def refuse_unknown_pages(names: Sequence[str], key: str) -> None:
    """Check the names of pages before anything is started.

    Args:
        names: names of pages.
        key: the key of the configuration that has them.

    Raises:
        BadInputError: a page does not exist; the message has one line for each.
        EnvironmentFailure: the wheel is not installed (class `setup`).
    """
    known = page_names()
    mistakes = [
        f"{key}: there is no MiniWoB++ page {name!r}; {instead_of(name, known)}" for name in names if name not in known
    ]
    if mistakes:
        raise BadInputError("\n".join(mistakes))
