"""Balances the training data of a Reflector, which calls most steps a success (GUI-Owl 2.2.3, reflector balancing)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

POSITIVE: Final = "reflector_positive"
NEGATIVE: Final = "reflector_negative"
"""Variants of the rows of a Reflector."""


def retained_reflections(positive: Mapping[int, bool]) -> frozenset[int]:
    """Return the steps of one trajectory whose reflections are learned from, by the paper's two rules.

    A negative reflection on step i is kept if step i + 1 was called positive. Otherwise reflections are kept only if
    all steps of the trajectory were called positive.

    Args:
        positive: by index of the step, whether the Reflector called it a success.
    """
    if all(positive.values()):
        return frozenset(positive)
    return frozenset(step for step, success in positive.items() if not success and positive.get(step + 1, False))


def with_equal_reflections(examples: pa.Table) -> pa.Table:
    """Keep as many positive as negative reflections, those with the smallest ids; rows of other roles stay.

    Ids are hashes: the smallest ones are a random sample.

    Args:
        examples: in the schema `DIGESTS`; only `example_id` and `variant` are read.
    """
    positive, negative = (
        sorted(examples.filter(pc.equal(examples["variant"], variant))["example_id"].to_pylist())
        for variant in (POSITIVE, NEGATIVE)
    )
    size = min(len(positive), len(negative))
    surplus = pa.array([*positive[size:], *negative[size:]], pa.string())
    return examples.filter(pc.invert(pc.is_in(examples["example_id"], surplus)))
