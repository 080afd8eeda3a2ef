"""Finds the screenshots of pages in the folder of a graph."""

from __future__ import annotations

from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.stages.graphs.base import AppGraph


def picture_files(graph: AppGraph, folder: Path) -> dict[str, Path]:
    """By page, the file of its screenshot, where there is one.

    Raises:
        BadInputError: a picture lies outside the folder.
    """
    files = {name: folder / page.screenshot for name, page in graph.pages.items() if page.screenshot}
    for name, file in files.items():
        if not file.resolve().is_relative_to(folder.resolve()):
            raise BadInputError(f"{graph.pages[name].screenshot}: pictures must lie in the folder of the graph")
    return {name: file for name, file in files.items() if file.exists()}
