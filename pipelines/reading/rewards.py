"""Reads the rewards of earlier rounds from their committed judgements and steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pyarrow.compute as pc

from trajmill.pipelines.reading.history import judged_attempts
from trajmill.stages.derive.rewards import reward_of
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table


def attempt_rewards(
    warehouse: Warehouse, run_id: str, rounds: Collection[int], without: Collection[str] = ()
) -> list[list[float]]:
    """Read the rewards of all judged unguided attempts, by round, oldest first.

    Args:
        warehouse: where to read.
        run_id: the run.
        rounds: its rounds.
        without: trajectories that do not count.
    """
    replies = read_table(warehouse, "steps", ["trajectory_id", "action_kind"], rounds=rounds, run_id=run_id)
    unparsed = replies.filter(pc.equal(replies["action_kind"], "unparsed"))
    malformed = Counter(unparsed["trajectory_id"].to_pylist())
    rewards: dict[int, list[float]] = {}
    for attempt in judged_attempts(warehouse, run_id, rounds):
        if attempt.steps and not attempt.guided and attempt.trajectory_id not in without:
            reward = reward_of(attempt.correct, malformed[attempt.trajectory_id], attempt.steps)
            rewards.setdefault(attempt.round, []).append(reward.total)
    return [rewards[number] for number in sorted(rewards)]
