"""Phrasings that come as package data: by what is asked for, the training's and the held-out ones."""

from __future__ import annotations

from importlib.resources import files
from random import Random

import yaml

from trajmill.schemas.record import Record
from trajmill.stages.queries.base import Variant


class Phrasings(Record):
    """Templates for one kind of wish, in the language of `stages/queries/phrasing_template.py`."""

    phrasings: tuple[str, ...]
    heldout: tuple[str, ...]

    def draw(self, heldout: bool, rng: Random) -> Variant:
        """One of the templates of training, or of those that it never sees."""
        texts = self.heldout if heldout else self.phrasings
        number = rng.randrange(len(texts))
        return Variant(texts[number], number, heldout)


def packaged_phrasings(package: str) -> dict[str, Phrasings]:
    """The phrasings of a package's `phrasings.yaml`, by kind."""
    said = yaml.safe_load(files(package).joinpath("phrasings.yaml").read_text())
    return {kind: Phrasings.model_validate(texts) for kind, texts in said.items()}
