"""The section `[atomic]`: how many queries for atomic operations a run makes."""

from __future__ import annotations

from pydantic import NonNegativeInt

from trajmill.schemas.spec import Spec
from trajmill.stages.queries.atomic.base import AtomicApp


class AtomicSection(Spec):
    """Single operations (double-click, drag, input) asked for in real programs; for the environment `desktop`."""

    train: NonNegativeInt = 0
    """Queries of each operation to learn on."""
    heldout_slots: NonNegativeInt = 0
    """Queries of each operation on new objects; of operations in programs that `queries.heldout_app_names` keeps from
    training, the only ones."""
    heldout_phrasings: NonNegativeInt = 0
    """Queries of each operation on new objects, in phrasings that training never sees."""
    programs: tuple[AtomicApp, ...] = ()
    """Programs whose operations are asked for; all if there are none."""

    @property
    def wanted(self) -> bool:
        """Whether any query for an operation is asked for."""
        return bool(self.train or self.heldout_slots or self.heldout_phrasings)
