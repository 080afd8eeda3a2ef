"""Draws a graph as one HTML file, with the screenshots in it."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from trajmill.flows.graphs.explore import picture_files
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.file import read_graph

_LARGEST = 900
"""Longest side of an embedded picture, in pixels."""


class EmbeddedPicture(NamedTuple):
    """A screenshot as a data URL, and the size of the original."""

    url: str
    size: Size


def write_graph_page(path: Path, out: Path) -> None:
    """Write the page of a graph.

    Args:
        path: file of the graph.
        out: the HTML file.

    Raises:
        BadInputError: the file is no graph, or a picture is none.
    """
    graph = read_graph(path)
    pictures = {name: _picture(file) for name, file in picture_files(graph, path.parent).items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_html(graph, pictures), encoding="utf-8")


def _html(graph: AppGraph, pictures: dict[str, EmbeddedPicture]) -> str:
    from trajmill.flows.graphs.drawing import HEIGHT, WIDTH, draw_graph

    environment = Environment(
        loader=PackageLoader("trajmill.flows.graphs"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    template = environment.get_template("graph.html.jinja")
    return template.render(graph=graph, pictures=pictures, drawing=draw_graph(graph), wide=WIDTH, high=HEIGHT)


def _picture(file: Path) -> EmbeddedPicture:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            size = Size(*image.size)
            small = image.convert("RGB")
    except (OSError, UnidentifiedImageError) as error:
        raise BadInputError(f"{file}: it is no picture; explore again, or remove `screenshot`") from error
    small.thumbnail((_LARGEST, _LARGEST))
    data = BytesIO()
    small.save(data, "WEBP", quality=80)
    return EmbeddedPicture(f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}", size)
