"""How many queries are generated from navigation graphs, and which apps are held out: keys of `[queries]`."""

from __future__ import annotations

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
    """Queries that decide which policy is promoted; half of them are of `validation_app_names` where there are any."""
    validation_app_names: tuple[str, ...] = ()
    """Ids of apps that are kept from training for half of the validation queries."""

    @property
    def unseen_app_names(self) -> tuple[str, ...]:
        """The apps that training never sees."""
        return (*self.heldout_app_names, *self.validation_apps)

    @property
    def validation_apps(self) -> tuple[str, ...]:
        """The apps kept from training for the validation queries; none without such queries."""
        return self.validation_app_names if self.validation else ()

    def wanted(self, split: Split) -> int:
        """Number of wanted queries of a split; 0 for held-out apps if no app is held out."""
        if split is Split.HELDOUT_APPS and not self.heldout_app_names:
            return 0
        return int(getattr(self, split.value))
