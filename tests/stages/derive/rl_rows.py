"""RL rows of episodes in memory, planned and made as the pipeline does it from stored rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.stages.derive.samples import ORIGIN, size_of
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.stages.derive.rl_plan import RewardMoments, RLAttempt, RLBatch, plan_rl
from trajmill.stages.derive.rl_steps import PolicyWords, RLRows, rl_steps
from trajmill.stages.derive.spec import RLSpec

WORDS = PolicyWords(ANY, size_of)


class EpisodeBatch(NamedTuple):
    episodes: Sequence[Episode]
    remembered: Mapping[str, Episode] = {}
    earlier: Sequence[RewardMoments] = ()
    may_be_judged: Collection[str] = ()
    stale: Collection[str] = ()


def rl_rows_of(
    batch: EpisodeBatch, spec: RLSpec | None = None, words: PolicyWords = WORDS, seed: int = 0, origin: Origin = ORIGIN
) -> RLRows:
    spec = spec or RLSpec()
    remembered = {query_id: attempt_of(success) for query_id, success in batch.remembered.items()}
    attempts = [attempt_of(episode) for episode in batch.episodes]
    plan = plan_rl(RLBatch(attempts, remembered, *batch[2:]), spec, seed)
    by_id = {each.trajectory.trajectory_id: each for each in (*batch.remembered.values(), *batch.episodes)}
    made = [rl_steps(by_id[one.trajectory_id], one, spec.step_weight, words, origin) for one in plan.trajectories]
    rows = tuple(row for each in made for row in each.rows)
    return RLRows(rows, (*plan.dropped, *(step for each in made for step in each.dropped)))


def attempt_of(episode: Episode) -> RLAttempt:
    trajectory = episode.trajectory
    return RLAttempt(
        trajectory_id=trajectory.trajectory_id,
        query_id=episode.query.query_id,
        split=episode.query.split,
        round=trajectory.round,
        model_version=trajectory.model_version,
        purpose=trajectory.purpose,
        status=trajectory.status,
        stop_reason=trajectory.stop_reason,
        steps=len(episode.steps),
        malformed=sum(step.action is None for step in episode.steps),
        correct=None if episode.judgement is None else episode.judgement.correct,
        parent_id=trajectory.parent_id,
        branched_at=trajectory.branched_at,
    )
