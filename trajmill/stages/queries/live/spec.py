"""How many queries are made from the graphs of live apps: keys of `[graphs]`."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeInt

from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import Split


class LiveQueriesSpec(Spec):
    """Queries from graphs of apps (see graphs.md), beside the environment's own.

    Apps named in `queries.heldout_app_names` and `queries.validation_app_names` are kept from training.
    """

    files: tuple[Path, ...] = ()
    """Files of graphs, whose apps the environment runs; critics of the kinds `graph_...` know them, too."""
    train: NonNegativeInt = 0
    """Queries for training."""
    validation: NonNegativeInt = 0
    """New values and pages, which decide which policy is promoted."""
    heldout_slots: NonNegativeInt = 0
    """New values and pages, phrased as in training."""
    heldout_phrasings: NonNegativeInt = 0
    """New values and pages in phrasings that training never sees."""
    heldout_apps: NonNegativeInt = 0
    """Queries of apps that training never sees."""

    def wanted(self, split: Split) -> int:
        """Number of wanted queries of a split."""
        return int(getattr(self, split.value))

    @property
    def any_wanted(self) -> bool:
        """Whether any query is wanted."""
        return any(map(self.wanted, Split))
