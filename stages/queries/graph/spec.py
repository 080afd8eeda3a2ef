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

    def wanted(self, split: Split) -> int:
        """Number of wanted queries of a split; 0 for held-out apps if no app is held out."""
        if split is Split.HELDOUT_APPS and not self.heldout_app_names:
            return 0
        return int(getattr(self, split.value))
