"""Relations between boxes, and the boxes that an OmniParser server finds in a picture (paper 2.2.2: OmniParser V2).

The server answers `POST /parse/` with `parsed_content_list`: for each element a box as fractions of the picture.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import aiohttp
from PIL import Image
from pydantic import BaseModel, Field, ValidationError

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id

_SECONDS = 120.0
_MOST_BOXES = 5000
_Fraction = Annotated[float, Field(ge=-0.01, le=1.01)]


class _Element(BaseModel):
    bbox: tuple[_Fraction, _Fraction, _Fraction, _Fraction]


class _Answer(BaseModel):
    parsed_content_list: Annotated[list[_Element], Field(max_length=_MOST_BOXES)]


async def detected_boxes(address: str, image: bytes, size: Size) -> list[Box]:
    """Return the boxes that a server finds in a picture, in pixels. Raises ModelFailure for no or another answer."""
    url = f"{address.rstrip('/')}/parse/"
    try:
        limit = aiohttp.ClientTimeout(_SECONDS)
        async with aiohttp.ClientSession(timeout=limit, raise_for_status=True, trust_env=True) as client:
            picture = {"base64_image": base64.b64encode(image).decode()}
            async with client.post(url, json=picture, allow_redirects=False) as answered:
                found = _Answer.model_validate_json(await answered.read()).parsed_content_list
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ModelFailure(f"detector {url}: {type(error).__name__} {error}") from error
    except ValidationError as error:
        raise ModelFailure(f"detector {url}: its answer has no parsed_content_list of boxes") from error
    scale = (size.width, size.height, size.width, size.height)
    return [Box(*(round(edge * side) for edge, side in zip(each.bbox, scale, strict=True))) for each in found]


def overlap(box: Box, others: Iterable[Box]) -> float:
    """Return the largest intersection over union of a box with other boxes, 0 without any."""
    shares = [0.0]
    for other in others:
        shared = box.within(other).area
        joined = box.area + other.area - shared
        shares.append(shared / joined if joined else 0.0)
    return max(shares)


def around(boxes: Iterable[Box]) -> Box:
    left, top, right, bottom = zip(*boxes, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def is_large(box: Box, smallest: int) -> bool:
    return box.right - box.left >= smallest and box.bottom - box.top >= smallest


_MARGIN = 8
"""Pixels around the elements of a region, where the screen has them."""


def cropped(screen_id: str, image: bytes, elements: Sequence[UIElement], box: Box) -> Observation:
    def cut() -> bytes:
        written = io.BytesIO()
        with Image.open(io.BytesIO(image)) as opened:
            opened.convert("RGB").crop(box).save(written, "PNG")
        return written.getvalue()

    size = Size(box.right - box.left, box.bottom - box.top)
    inside = (each for each in elements if each.bounds.within(box) == each.bounds)
    moved = tuple(each._replace(bounds=each.bounds.moved(-box.left, -box.top)) for each in inside)
    return Observation(ScreenHandle(content_id("crop", screen_id, list(box)), size, cut), moved, "")


def regions(elements: Sequence[UIElement], size: Size, most: int) -> list[Box]:
    """Return boxes of at most `most` elements each where gaps allow it, in reading order; none cuts an element."""
    found = []
    for part in _split([element.bounds for element in elements if element.bounds.area], most):
        left, top, right, bottom = around(part)
        with_margin = Box(left - _MARGIN, top - _MARGIN, right + _MARGIN, bottom + _MARGIN)
        found.append(with_margin.within(Box(0, 0, *size)))
    return found


class _Gap(NamedTuple):
    """A strip without elements across a region."""

    width: int
    middle: int
    vertical: bool


def _split(boxes: list[Box], most: int) -> list[list[Box]]:
    gaps = [*_gaps(boxes, vertical=False), *_gaps(boxes, vertical=True)] if len(boxes) > most else []
    gap = max(gaps, default=None, key=lambda gap: (gap.width, not gap.vertical, -gap.middle))
    if gap is None:
        return [boxes] if boxes else []
    first = [box for box in boxes if (box.right if gap.vertical else box.bottom) <= gap.middle]
    second = [box for box in boxes if box not in first]
    return [*_split(first, most), *_split(second, most)]


def _gaps(boxes: Iterable[Box], *, vertical: bool) -> list[_Gap]:
    found, end = list[_Gap](), None
    for low, high in sorted((box.left, box.right) if vertical else (box.top, box.bottom) for box in boxes):
        if end is not None and low > end:
            found.append(_Gap(low - end, (low + end) // 2, vertical))
        end = high if end is None else max(end, high)
    return found
