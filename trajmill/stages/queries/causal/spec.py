"""How many causal pathways are made, and how hard ones: keys of `[causal]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import Split


class CausalSpec(Spec):
    """Causal pathways (see causal.md), beside the environment's own queries.

    Apps named in `queries.heldout_app_names` and `queries.validation_app_names` are kept from training.
    """

    files: tuple[Path, ...] = ()
    """Files of graphs (see graphs.md) of apps that the environment runs, beside the simulated apps that it has."""
    train: NonNegativeInt = 0
    """Pathways for training."""
    validation: NonNegativeInt = 0
    """Pathways with new values, which decide which policy is promoted."""
    heldout_slots: NonNegativeInt = 0
    """Pathways with new values, phrased as in training."""
    heldout_phrasings: NonNegativeInt = 0
    """Pathways with new values in phrasings that training never sees."""
    heldout_apps: NonNegativeInt = 0
    """Pathways through an app that training never sees."""
    level_weights: Annotated[tuple[NonNegativeFloat, ...], Field(min_length=3, max_length=3)] = (133.0, 92.0, 51.0)
    """Shares of levels 1 (2 atomic tasks), 2 (3 or 4) and 3 (5 to 7 in 3 apps or more), as in NaturalGAIA, table 5."""

    def wanted(self, split: Split) -> int:
        """Number of wanted pathways of a split."""
        return int(getattr(self, split.value))

    @property
    def any_wanted(self) -> bool:
        """Whether any pathway is wanted."""
        return any(map(self.wanted, Split))
