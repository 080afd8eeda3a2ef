"""Measures how varied the rows of a release are, holds them to quotas, and compares two releases."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, TypeAdapter, ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record

Aspect = Literal["thought", "action", "x", "y", "platform", "app", "task", "steps", "ending", "words"]
"""The columns of view `example_facets` whose values are counted."""
ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)
Quotas = dict[Aspect, Annotated[float, Field(gt=0, le=1)]]
_NARROWER = 0.9
"""Share of the effective values of the release before, below which an aspect has narrowed."""


class Diversity(Record):
    """How varied the rows of a release are in one aspect; rows without a value do not count."""

    aspect: Aspect
    rows: int
    distinct_values: int
    effective: float
    """Number of equally frequent values that would be as varied: 2 to the power of the entropy in bits."""
    largest: str
    """The most frequent value."""
    largest_share: float


DIVERSITY_FILE: Final = "diversity.json"
_WRITTEN = TypeAdapter(tuple[Diversity, ...])


def diversity_json(measured: Sequence[Diversity]) -> bytes:
    return _WRITTEN.dump_json(tuple(measured), indent=1)


def read_diversity(written: str | bytes | None) -> tuple[Diversity, ...]:
    """Parse the figures of a release; none if an earlier trajmill has made it, or the file is damaged."""
    try:
        return _WRITTEN.validate_json(written or "[]")
    except ValidationError:
        return ()


def diversity_of(facets: pa.Table) -> tuple[Diversity, ...]:
    """Measure rows of view `example_facets`; aspects without a value are left out."""
    by_aspect = {aspect: _counts(facets, aspect) for aspect in ASPECTS}
    return tuple(_measured(aspect, counts) for aspect, counts in by_aspect.items() if counts)


def _measured(aspect: Aspect, counts: Counter[str]) -> Diversity:
    rows = counts.total()
    bits = math.log2(rows) - math.fsum(n * math.log2(n) for n in counts.values()) / rows  # the same in any order
    largest, most = min(counts.items(), key=lambda each: (-each[1], each[0]))
    return Diversity(
        aspect=aspect,
        rows=rows,
        distinct_values=len(counts),
        effective=2**bits,
        largest=largest,
        largest_share=most / rows,
    )


def _counts(facets: pa.Table, aspect: Aspect) -> Counter[str]:
    counted = facets[aspect].drop_null().value_counts()
    return Counter({each["values"]: each["counts"] for each in counted.to_pylist()})


class Varied(NamedTuple):
    examples: pa.Table
    """The rows that are kept, in their order."""
    diversity: tuple[Diversity, ...]
    over_quota: int
    """Rows that are left out."""


def hold_to_quotas(examples: pa.Table, facets: pa.Table, quotas: Mapping[Aspect, float]) -> Varied:
    """Leave out examples as `within_quotas` does; `facets` are their rows of view `example_facets`."""
    kept = within_quotas(facets, quotas)
    surplus = facets.filter(pc.invert(pc.is_in(facets["example_id"], kept["example_id"].combine_chunks())))
    is_surplus = pc.is_in(examples["example_id"], surplus["example_id"].combine_chunks())
    return Varied(examples.filter(pc.invert(is_surplus)), diversity_of(kept), surplus.num_rows)


def within_quotas(facets: pa.Table, quotas: Mapping[Aspect, float]) -> pa.Table:
    """Drop rows until no value has a larger share than the quota of its aspect; those with the greatest ids first.

    Ids are hashes, so a random sample stays. Raises BadInputError if the quotas cannot be met.
    """
    kept, is_met = facets, False
    while not is_met:
        is_met = True
        for aspect, quota in quotas.items():
            counts = _counts(kept, aspect)
            if not counts or max(counts.values()) <= quota * counts.total():
                continue
            limit, is_met = _limit(counts, quota), False
            if limit == 0:
                wanted = ", ".join(f"{name} = {most:g}" for name, most in quotas.items())
                raise BadInputError(
                    f"release.quotas ({wanted}): cannot be met, the rows have {len(_counts(facets, aspect))} values of "
                    f"{aspect}; raise release.quotas.{aspect}, or collect more varied data"
                )
            kept = with_few_equal(kept, aspect, limit)
    return kept


def _limit(counts: Counter[str], quota: float) -> int:
    """Return the most rows that each value may have, so that none has more than its share of what is left then."""
    candidates = range(1, max(counts.values()) + 1)
    # The share of a value with `most` rows grows with `most`.
    return bisect_left(candidates, True, key=lambda most: most > quota * sum(min(n, most) for n in counts.values()))


def with_few_equal(rows: pa.Table, column: str, most: int) -> pa.Table:
    """Keep at most `most` rows of each value of a column, those with the smallest ids, in the order of the table.

    Rows without a value stay.
    """
    ids, values = rows["example_id"].to_pylist(), rows[column].to_pylist()
    seen, kept = Counter[object](), []
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        seen[values[at]] += 1
        if values[at] is None or seen[values[at]] <= most:
            kept.append(at)
    return rows.take(pa.array(sorted(kept), pa.int64()))


def narrowed(before: Sequence[Diversity], now: Sequence[Diversity]) -> Iterator[str]:
    """Yield a sentence for each aspect in which a release is narrower than the one before."""
    earlier = {each.aspect: each for each in before}
    for each in now:
        was = earlier.get(each.aspect)
        if was is not None and each.effective < _NARROWER * was.effective:
            yield (
                f"{each.aspect}: {was.effective:.1f} -> {each.effective:.1f} effective values, "
                f"{each.largest_share:.0%} are {each.largest!r}"
            )
