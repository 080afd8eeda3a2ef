"""All stages of a round, in their order, and the commands that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policy import BASELINE, PROMOTE
from trajmill.flows.stage import StageReport, finished
from trajmill.flows.tasks.calibrate import CALIBRATE, calibrate_judge
from trajmill.flows.tasks.derive import DERIVE, DERIVE_RL, derive, derive_rl
from trajmill.flows.tasks.evaluate import EVALUATE, baseline, evaluate
from trajmill.flows.tasks.export import EXPORT, export
from trajmill.flows.tasks.generate import GENERATE, generate
from trajmill.flows.tasks.guide import GUIDE, GUIDED, REFERENCE, guide, reference, rollout_guided
from trajmill.flows.tasks.judge import JUDGE, REJUDGE, judge, judge_guided
from trajmill.flows.tasks.promote import promote
from trajmill.flows.tasks.propose import PROPOSE, asks_for_tasks, propose
from trajmill.flows.tasks.rollout import ROLLOUT, rollout
from trajmill.flows.tasks.train import TRAIN, train


class Stage(NamedTuple):
    """One stage of a round."""

    name: str
    command: str
    """The command line's name for it and its neighbours."""
    work: Callable[[RoundContext], StageReport]


def _baseline(context: RoundContext) -> StageReport:
    return baseline(context, str(finished(context.in_round(1), GENERATE).result["first_policy"]))


STAGES = (
    Stage(GENERATE, "generate", generate),
    Stage(BASELINE, "generate", _baseline),
    Stage(PROPOSE, "rollout", propose),
    Stage(ROLLOUT, "rollout", rollout),
    Stage(JUDGE, "judge", judge),
    Stage(REFERENCE, "guide", reference),
    Stage(GUIDE, "guide", guide),
    Stage(GUIDED, "guide", rollout_guided),
    Stage(REJUDGE, "guide", judge_guided),
    Stage(CALIBRATE, "derive", calibrate_judge),
    Stage(DERIVE, "derive", derive),
    Stage(DERIVE_RL, "derive", derive_rl),
    Stage(EXPORT, "export", export),
    Stage(TRAIN, "train", train),
    Stage(EVALUATE, "evaluate", evaluate),
    Stage(PROMOTE, "evaluate", promote),
)
"""In their order; a stage of an earlier round is never done again."""

NEEDED: dict[str, tuple[str, ...]] = {
    "generate": (),
    "rollout": (GENERATE, BASELINE),
    "judge": (ROLLOUT,),
    "guide": (JUDGE,),
    "derive": (JUDGE,),
    "export": (DERIVE,),
    "train": (EXPORT,),
    "evaluate": (TRAIN,),
}
"""For each command, the stages that must be finished before it."""


def stages_of(config: Config) -> tuple[Stage, ...]:
    """The stages of a round that a configuration asks for, in their order."""
    return tuple(stage for stage in STAGES if stage.name != PROPOSE or asks_for_tasks(config))
