"""How many queries are generated from navigation graphs, and which apps are held out: keys of `[queries]`."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import Split


class GraphQueriesSpec(Spec):
    """How many queries to make for each split, and what is held out."""

    train: PositiveInt = 1000
    """Queries for training."""
    heldout_slots: NonNegativeInt = 60
    """New slot combinations, phrased as in training."""
    heldout_phrasings: NonNegativeInt = 60
    """New slot combinations in phrasings that training never sees."""
    heldout_apps: NonNegativeInt = 60
    """Queries of apps that training never sees."""
    heldout_app_names: tuple[str, ...] = ("stride", "photos")
    """Ids of the apps that are kept from training."""

    validation: NonNegativeInt = 80
    """Queries that decide which policy is promoted: half of them new slot combinations, half of apps of their own."""
    validation_app_names: tuple[str, ...] = ("rides",)
    """Ids of the apps kept from training for the validation queries; the default is passed over where there is no such
    app."""

    @property
    def unseen_app_names(self) -> tuple[str, ...]:
        """The apps that training never sees."""
        return (*self.heldout_app_names, *(self.validation_app_names if self.validation else ()))

    def validation_apps(self, known: Collection[str]) -> tuple[str, ...]:
        """The apps kept from training for validation, without a default that is not among the known apps."""
        if not self.validation:
            return ()
        by_default = self.validation_app_names == type(self).model_fields["validation_app_names"].default
        return tuple(name for name in self.validation_app_names if name in known or not by_default)

    def wanted(self, split: Split) -> int:
        """Number of wanted queries of a split; 0 for held-out apps if no app is held out."""
        if split is Split.HELDOUT_APPS and not self.heldout_app_names:
            return 0
        return int(getattr(self, split.value))
