"""Tries manuals: attempts at queries of their tasks, with the manual as guidance and without (GUI-Owl 2.2.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Refusal
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.stages.derive.planning.manual import filled_manual

MANUAL: Final = "manual"
"""`source` of the guidance that a manual gives."""
MANUAL_HELPED: Final = "manual_helped"
"""Variant of a manual with which attempts succeeded more often than without."""


class TriedManual(NamedTuple):
    queries: int
    """Queries whose attempts were both scored."""
    without: float
    with_manual: float

    @property
    def helped(self) -> bool:
        return self.with_manual > self.without

    @property
    def tells_nothing(self) -> bool:
        return not self.queries or self.without >= 1.0


def guidance_by(manual: Example, queries: Sequence[Query], most: int, origin: Origin) -> list[tuple[Query, Guidance]]:
    """Return at most `most` queries of a manual's task at which it is tried, each with the manual as its guidance.

    The query that the manual was made from comes last: a manual should help with others.
    """
    found = []
    for query in sorted(queries, key=lambda query: query.query_id == manual.query_id):
        filled = filled_manual(manual.messages[-1].content, query)
        if filled is None:
            continue
        guidance = Guidance(
            guidance_id=Guidance.make_id(query.query_id, filled),
            query_id=query.query_id,
            source_trajectory=manual.trajectory_id,
            source=MANUAL,
            step_descriptions=(),
            dropped_steps=(),
            text=filled,
            **origin.common(manual.made_by),
        )
        found.append((query, guidance))
    return found[:most]


def tried_manual(
    pairs: Collection[tuple[str, str]],
    without: Mapping[str, float | None],
    guided: Mapping[str, float | None],
) -> TriedManual:
    """Compare the attempts at pairs of a query and its guidance; a pair counts if both attempts have a reward."""
    scored = [
        (before >= 1.0, after >= 1.0)
        for query, guidance in pairs
        if (before := without.get(query)) is not None and (after := guided.get(guidance)) is not None
    ]
    if not scored:
        return TriedManual(0, 0.0, 0.0)
    return TriedManual(len(scored), fmean(one for one, _ in scored), fmean(two for _, two in scored))


def kept_manuals(
    manuals: Sequence[Example], tried: Mapping[str, TriedManual], origin: Origin
) -> tuple[list[Example], list[Refusal]]:
    """Return the manuals that helped or could not be compared, and the refusals of the others.

    `tried` has the results by example id.
    """
    kept, refused = [], []
    for manual in manuals:
        found = tried[manual.example_id]
        if found.helped:
            kept.append(manual.model_copy(update={"variant": MANUAL_HELPED}))
        elif found.tells_nothing:
            kept.append(manual)
        else:
            figures = f"{found.with_manual:.0%} with, {found.without:.0%} without, at {found.queries} queries"
            refusal = Refusal(
                kind=manual.kind,
                trajectory_id=manual.trajectory_id,
                variant=manual.variant,
                step_index=None,
                screen_id=None,
                reason="manual_did_not_help",
                detail=f"{figures}: {' '.join(manual.messages[-1].content.split())}",
                count=1,
                **origin.common(manual.made_by),
            )
            refused.append(refusal)
    return kept, refused
