"""Reads phrasings from package data: by kind of task, templates for training and held-out ones."""

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
        """Draw a training template, or a held-out one."""
        texts = self.heldout if heldout else self.phrasings
        number = rng.randrange(len(texts))
        return Variant(texts[number], number, heldout)


def packaged_phrasings(package: str) -> dict[str, Phrasings]:
    """The phrasings of a package's `phrasings.yaml`, by kind."""
    by_kind = yaml.safe_load(files(package).joinpath("phrasings.yaml").read_text())
    return {kind: Phrasings.model_validate(texts) for kind, texts in by_kind.items()}
