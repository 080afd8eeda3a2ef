"""Plans the attempts of a round: how often each query is attempted, and with which seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt

DEVICE_PROFILES = 8
"""Number of variants of a device; environments choose one by `seed % DEVICE_PROFILES`."""
TRAINING_PROFILES = 6
"""Number of device profiles for training; the others are only for evaluation."""


def episode_seed(run_seed: int, round_number: int, query_id: str, purpose: Purpose, attempt: int) -> int:
    """The seed of an attempt; evaluation uses other device profiles than training.

    Evaluation seeds do not depend on the round or the policy, so that policies are compared on equal episodes.
    """
    evaluating = purpose is Purpose.EVALUATE
    digest = int(content_id("seed", run_seed, 0 if evaluating else round_number, query_id, purpose, attempt)[:12], 16)
    held_out = DEVICE_PROFILES - TRAINING_PROFILES
    profile = TRAINING_PROFILES + digest % held_out if evaluating else digest % TRAINING_PROFILES
    return (digest >> 18) * DEVICE_PROFILES + profile


def plan_rollouts(
    queries: Sequence[Query], tries: Mapping[str, int], run_seed: int, round_number: int
) -> list[Attempt]:
    """Plan unguided attempts at queries; `tries` has their number by query id, and missing queries get none."""
    return [
        _attempt(query, Purpose.TRAIN, number, run_seed, round_number, None)
        for query in queries
        for number in range(tries.get(query.query_id, 0))
    ]


def plan_guided(
    guided: Sequence[tuple[Query, Guidance]], episodes: int, run_seed: int, round_number: int, per_query: int
) -> list[Attempt]:
    """Plan `per_query` guided attempts for each query, in order, and at most `episodes` in total."""
    attempts = [
        _attempt(query, Purpose.GUIDED, number, run_seed, round_number, guidance)
        for query, guidance in guided
        for number in range(per_query)
    ]
    return attempts[:episodes]


def plan_demonstrations(queries: Sequence[Query], episodes: int, run_seed: int, round_number: int) -> list[Attempt]:
    """So many attempts without hints that stand in for guided ones; the queries take turns."""
    turns = [divmod(number, len(queries)) for number in range(episodes if queries else 0)]
    return [_attempt(queries[which], Purpose.GUIDED, turn, run_seed, round_number, None) for turn, which in turns]


def plan_once(queries: Sequence[Query], purpose: Purpose, run_seed: int, round_number: int) -> list[Attempt]:
    """Plan one attempt at every query, for a measurement or for walks of the reference paths."""
    return [_attempt(query, purpose, 0, run_seed, round_number, None) for query in queries]


def plan_trials(guided: Sequence[tuple[Query, Guidance]], run_seed: int, round_number: int) -> list[Attempt]:
    """Plan two attempts at each query with the same seed, one without its guidance and one with it.

    A query that comes twice, with two texts, has one attempt without them.
    """
    # Number 0 is the trial of a proposed task.
    number = 1
    queries = {query.query_id: query for query, _ in guided}.values()
    alone = [_attempt(query, Purpose.TRIAL, number, run_seed, round_number, None) for query in queries]
    return alone + [_attempt(query, Purpose.TRIAL, number, run_seed, round_number, hint) for query, hint in guided]


def _attempt(
    query: Query, purpose: Purpose, number: int, run_seed: int, round_number: int, guidance: Guidance | None
) -> Attempt:
    seed = episode_seed(run_seed, round_number, query.query_id, purpose, number)
    return Attempt(query, purpose, number, seed, guidance)
