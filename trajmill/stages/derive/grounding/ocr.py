"""Reads the texts of a picture, with the place of each letter, by RapidOCR.

Its PP-OCR models come with the package.
"""

from __future__ import annotations

import io
import threading
from typing import NamedTuple

import numpy as np
from PIL import Image

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box


class ReadLetter(NamedTuple):
    """One character of a line; a space is one too."""

    text: str
    box: Box
    score: float
    """The recogniser's confidence, from 0 to 1."""


class ReadLine(NamedTuple):
    """One line of text of a picture."""

    box: Box
    letters: tuple[ReadLetter, ...]

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(letter.text for letter in self.letters)


class TextReader:
    """Reads pictures one after the other: its models use all their memory once."""

    def __init__(self) -> None:
        """Load the models of the package.

        Raises:
            BadInputError: a library of the system that the package needs is missing, e.g. libGL.so.1.
        """
        try:
            from rapidocr_onnxruntime import RapidOCR
        except ImportError as error:
            raise BadInputError(f"derive.grounding.ocr: {error}; install it, or leave the key empty") from None
        # Workers are processes, so each model takes one core.
        self._read = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, use_cls=False)
        self._turn = threading.Lock()

    def lines(self, image: bytes) -> list[ReadLine]:
        """The lines of a picture from top to bottom, in its pixels; they read from left to right.

        Raises:
            OSError: the image does not decode.
        """
        with Image.open(io.BytesIO(image)) as opened:
            blue_first = np.asarray(opened.convert("RGB"))[:, :, ::-1]
        with self._turn:
            found, _ = self._read(blue_first, return_word_box=True)
        return [
            ReadLine(_around(corners), tuple(map(ReadLetter, letters, map(_around, places), scores)))
            for corners, _, _, places, letters, scores in found or ()
        ]


def _around(corners: list[tuple[float, float]]) -> Box:
    across, down = [round(x) for x, _ in corners], [round(y) for _, y in corners]
    return Box(min(across), min(down), max(across), max(down))
