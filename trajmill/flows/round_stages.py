"""The stages of a round: one row for each, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE, PROMOTE
from trajmill.flows.stage import StageReport
from trajmill.flows.tasks.calibrate import CALIBRATE, calibrate_judge
from trajmill.flows.tasks.derive import (
    DERIVE,
    DERIVE_KIND,
    DERIVE_RL,
    derive,
    derive_for_training,
    derive_rl,
    trains_on_a_kind,
)
from trajmill.flows.tasks.evaluate import EVALUATE, baseline, evaluate
from trajmill.flows.tasks.generate import GENERATE, generate
from trajmill.flows.tasks.guide import GUIDE, GUIDED, REFERENCE, guide, reference, rollout_guided
from trajmill.flows.tasks.judge import JUDGE, JUDGE_GUIDED, judge, judge_guided
from trajmill.flows.tasks.promote import promote
from trajmill.flows.tasks.queries.fresh import FRESH, asks_for_fresh, fresh
from trajmill.flows.tasks.queries.propose import PROPOSE, asks_for_tasks, propose
from trajmill.flows.tasks.queries.try_proposals import TRY_PROPOSALS, tries_proposals, try_proposals
from trajmill.flows.tasks.release import RELEASE, release
from trajmill.flows.tasks.rollout import ROLLOUT, rollout
from trajmill.flows.tasks.train import TRAIN, train


class RoundStage(NamedTuple):
    """One stage of a round."""

    name: str
    command: str
    """The command that runs it, alone or with its neighbours."""
    needs: tuple[str, ...]
    """The stages that must be finished before it."""
    work: Callable[[RoundContext], StageReport]
    asks_models: bool = False
    """Whether it asks models of `[models]`, so that their servers must run."""
    may_overlap: bool = False
    """Whether the rollout of the next round may go on beside it."""
    fixed_round: int | None = None
    """The round of its rows if the stage is done once for all rounds; None: the round that runs it."""
    is_wanted: Callable[[Config], bool] = lambda config: True
    """Whether a configuration asks for it."""

    def in_its_round(self, context: RoundContext) -> RoundContext:
        """The round of its rows."""
        return context if self.fixed_round is None else context.in_round(self.fixed_round)


def _promote(context: RoundContext) -> StageReport:
    return promote(context, [stage.name for stage in STAGES])


STAGES = (
    RoundStage(GENERATE, "generate", (), generate, asks_models=True, fixed_round=1),
    RoundStage(BASELINE, "generate", (GENERATE,), baseline, asks_models=True, fixed_round=0),
    RoundStage(PROPOSE, "rollout", (GENERATE, BASELINE), propose, asks_models=True, is_wanted=asks_for_tasks),
    RoundStage(
        TRY_PROPOSALS, "rollout", (GENERATE, BASELINE), try_proposals, asks_models=True, is_wanted=tries_proposals
    ),
    RoundStage(FRESH, "rollout", (GENERATE, BASELINE), fresh, is_wanted=asks_for_fresh),
    RoundStage(ROLLOUT, "rollout", (GENERATE, BASELINE), rollout, asks_models=True),
    RoundStage(JUDGE, "judge", (ROLLOUT,), judge, asks_models=True),
    RoundStage(REFERENCE, "guide", (JUDGE,), reference),
    RoundStage(GUIDE, "guide", (REFERENCE,), guide, asks_models=True),
    RoundStage(GUIDED, "guide", (GUIDE,), rollout_guided, asks_models=True),
    RoundStage(JUDGE_GUIDED, "guide", (GUIDED,), judge_guided, asks_models=True),
    RoundStage(CALIBRATE, "derive", (JUDGE,), calibrate_judge, may_overlap=True),
    RoundStage(DERIVE, "derive", (JUDGE,), derive, may_overlap=True),
    RoundStage(DERIVE_RL, "derive", (JUDGE,), derive_rl, may_overlap=True),
    RoundStage(DERIVE_KIND, "derive", (DERIVE,), derive_for_training, may_overlap=True, is_wanted=trains_on_a_kind),
    RoundStage(RELEASE, "release", (DERIVE, DERIVE_RL), release, may_overlap=True),
    RoundStage(TRAIN, "train", (RELEASE,), train, may_overlap=True),
    RoundStage(EVALUATE, "evaluate", (TRAIN,), evaluate, asks_models=True),
    RoundStage(PROMOTE, "evaluate", (EVALUATE,), _promote),
)
"""All stages, in the order in which they run."""

COMMANDS = tuple(dict.fromkeys(stage.command for stage in STAGES))


def stages_of(config: Config) -> tuple[RoundStage, ...]:
    """The stages that a configuration asks for."""
    return tuple(stage for stage in STAGES if stage.is_wanted(config))


def collecting_stages(config: Config) -> tuple[RoundStage, ...]:
    """The stages that make trajectories and judge them: those before the training data."""
    stages = stages_of(config)
    first = next(place for place, stage in enumerate(stages) if stage.name == CALIBRATE)
    return stages[:first]


def needed_before(command: str) -> tuple[RoundStage, ...]:
    """The stages of other commands that must be finished before a command, in their order."""
    needed = {name for stage in STAGES if stage.command == command for name in stage.needs}
    return tuple(stage for stage in STAGES if stage.name in needed and stage.command != command)


def asks_models(command: str) -> bool:
    """Whether a stage of a command asks models."""
    return any(stage.asks_models for stage in STAGES if stage.command == command)
