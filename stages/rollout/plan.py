"""Which attempts a round makes: how often each query, with which seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from schemas.guidance import Guidance
from schemas.query import Query
from schemas.record import content_id
from schemas.trajectory import Purpose
from stages.rollout.base import Attempt

DEVICE_PROFILES = 8
"""Environments with variants of a device choose one by `seed % DEVICE_PROFILES`."""
TRAINING_PROFILES = 6
"""The first profiles are met in training, the others only in evaluation."""


def episode_seed(run_seed: int, round_number: int, query_id: str, purpose: Purpose, attempt: int) -> int:
    """The seed of an attempt; evaluation never meets a device profile that training meets.

    Evaluation seeds depend on neither the round nor the policy, so that policies are compared on equal episodes.
    """
    evaluating = purpose is Purpose.EVALUATE
    digest = int(content_id("seed", run_seed, 0 if evaluating else round_number, query_id, purpose, attempt)[:12], 16)
    held_out = DEVICE_PROFILES - TRAINING_PROFILES
    profile = TRAINING_PROFILES + digest % held_out if evaluating else digest % TRAINING_PROFILES
    return (digest >> 18) * DEVICE_PROFILES + profile


def plan_rollouts(
    queries: Sequence[Query], weights: Mapping[str, float], episodes: int, run_seed: int, round_number: int
) -> list[Attempt]:
    """Spread `episodes` attempts over the queries in proportion to their weights (by query id).

    Each query gets its share rounded down, and the rest goes to a weighted draw without repetition.
    """
    total = sum(weights[query.query_id] for query in queries)
    shares = [episodes * weights[query.query_id] / total for query in queries]
    counts = [int(share) for share in shares]
    random = Random(int(content_id("plan", run_seed, round_number)[:12], 16))
    chances = [random.random() ** (1 / max(share % 1, 1e-9)) for share in shares]
    by_chance = sorted(range(len(queries)), key=lambda index: -chances[index])
    for index in by_chance[: episodes - sum(counts)]:
        counts[index] += 1
    return [
        _attempt(query, Purpose.TRAIN, number, run_seed, round_number, None)
        for query, count in zip(queries, counts, strict=True)
        for number in range(count)
    ]


def plan_guided(
    guided: Sequence[tuple[Query, Guidance]], episodes: int, run_seed: int, round_number: int, per_query: int
) -> list[Attempt]:
    """`per_query` guided attempts for each query, in order, up to `episodes` in all."""
    attempts = [
        _attempt(query, Purpose.GUIDED, number, run_seed, round_number, guidance)
        for query, guidance in guided
        for number in range(per_query)
    ]
    return attempts[:episodes]


def plan_once(queries: Sequence[Query], purpose: Purpose, run_seed: int, round_number: int) -> list[Attempt]:
    """One attempt at every query: a measurement, or a walk of the reference paths."""
    return [_attempt(query, purpose, 0, run_seed, round_number, None) for query in queries]


def _attempt(
    query: Query, purpose: Purpose, number: int, run_seed: int, round_number: int, guidance: Guidance | None
) -> Attempt:
    seed = episode_seed(run_seed, round_number, query.query_id, purpose, number)
    return Attempt(query, purpose, number, seed, guidance)
