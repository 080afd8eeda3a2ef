"""The spec of grounding data."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Fraction
from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class GroundingSpec(KindSpec):
    """Grounding from the accessibility trees of the screens that agents saw: `trajmill derive grounding`."""

    name: ClassVar[str] = "grounding"
    version: ClassVar[str] = "3"
    once_per_screen: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("writer",)
    prompts: ClassVar[tuple[str, ...]] = ("rephrase",)

    instructions: tuple[Literal["functional", "appearance", "layout"], ...] = ("functional", "appearance", "layout")
    """The sorts of instructions: what an element is for, how it looks, where it stands."""
    smallest: PositiveInt = 8
    """Smallest width and height of an element, in pixels."""
    dense_from: NonNegativeInt = 12
    """Elements from which a screen is dense: it is cut into regions, and rows show one region; 0 cuts none."""
    region_elements: PositiveInt = 8
    """Most elements of a region."""
    ocr: Literal["", "rapidocr"] = ""
    """What reads the words of a screen, for instructions that name a word or a character: `rapidocr` (the extra `ocr`).
    It takes some seconds a screen, so nothing is read if it is empty."""
    ocr_score: Fraction = 0.9
    """Least confidence of OCR in each character of a word."""
    detector: str = ""
    """Address of an OmniParser server, which finds elements in pixels; elements and lines of text that it does not
    find are refused. Nothing is asked if it is empty."""
    overlap: Fraction = 0.5
    """Smallest overlap (intersection over union) of an element with a box of the detector (the paper's 0.5)."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Check that the package for OCR is installed where it is used."""
        super().refuse_without(models, embedded)
        if self.ocr and importlib.util.find_spec("rapidocr_onnxruntime") is None:
            raise BadInputError("derive.grounding.ocr needs rapidocr: pip install 'trajmill[ocr]', or leave it empty")

    def open(self, tools: Tools) -> Deriver:
        """What derives grounding data."""
        from trajmill.stages.derive.grounding.deriver import Grounding

        return Grounding(self, tools)
