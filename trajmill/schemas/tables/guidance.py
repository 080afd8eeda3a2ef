"""Query-specific guidance (paper 6.4)."""

from __future__ import annotations

from trajmill.schemas.record import Record, Row, content_id


class DroppedStep(Record):
    """A step of the source trajectory that the guidance leaves out."""

    index: int
    reason: str


class Guidance(Row):
    """Guidance for one query, written from one successful or reference trajectory."""

    guidance_id: str
    """Content id of the guidance."""
    query_id: str
    """The query that it is for."""
    source_trajectory: str
    """The trajectory that it was written from."""
    source: str
    """`own_success` or `reference_path`; `manual` for a manual that was tried."""
    step_descriptions: tuple[str, ...]
    """The outcome of each kept step, in order."""
    dropped_steps: tuple[DroppedStep, ...]
    """The steps that were left out, with the reason of each."""
    text: str
    """The text in the prompt."""

    @staticmethod
    def make_id(query_id: str, text: str) -> str:
        return content_id("guidance", query_id, text)
