"""The section `[atomic]`: how many queries for atomic operations a run makes."""

from __future__ import annotations

from pydantic import NonNegativeInt

from trajmill.schemas.spec import Spec
from trajmill.stages.queries.spec import AtomicApp, DocumentKind


class AtomicSection(Spec):
    """Queries for operations (double-click, drag, input) in real programs, only for the environment `desktop`."""

    train: NonNegativeInt = 0
    """Training queries for each operation."""
    heldout_slots: NonNegativeInt = 0
    """Queries for each operation on new objects. Programs of `queries.heldout_app_names` have only these."""
    heldout_phrasings: NonNegativeInt = 0
    """Queries for each operation on new objects, in phrasings that training never sees."""
    validation: NonNegativeInt = 0
    """Queries for each operation on new objects that decide which policy is promoted."""
    programs: tuple[AtomicApp, ...] = ()
    """Programs to make queries for; all if empty."""
    written: NonNegativeInt = 0
    """Further training queries for each kind of document, which `models.writer` writes from a screenshot and examples;
    the model must read images. Each is walked."""
    documents: tuple[DocumentKind, ...] = ("docx", "xlsx")
    """Kinds of documents that `written` queries are about: `docx`, `xlsx`, `pptx` (needs LibreOffice Impress)."""

    @property
    def drawn(self) -> bool:
        """Whether the run has queries for the packaged operations."""
        return bool(self.train or self.heldout_slots or self.heldout_phrasings or self.validation)

    @property
    def wanted(self) -> bool:
        """Whether the run has any queries for operations."""
        return self.drawn or bool(self.written)
