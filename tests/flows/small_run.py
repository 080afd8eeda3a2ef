"""A small but whole run: two rounds on a few queries, for tests of the loop."""

from pathlib import Path

from trajmill.flows.configuration.config import (
    Config,
    EvaluateSection,
    GuidanceSection,
    JudgeSection,
    QueriesSection,
    RolloutSection,
    RunSection,
)
from trajmill.flows.round import STAGES, do_stage
from trajmill.flows.stage import RoundContext, StageReport
from trajmill.stages.derive.spec import DeriveSpec, PlanningSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse.layout import create_warehouse


def small_config(root: Path, rounds: int = 2) -> Config:
    """A configuration whose rounds take a few seconds."""
    return Config(
        run=RunSection(root=root, rounds=rounds, name="small", seed=4),
        queries=QueriesSection(train=12, heldout_slots=4, heldout_phrasings=4, heldout_apps=0, validation=4),
        rollout=RolloutSection(episodes_per_round=32, concurrency=16, group_size=4),
        judge=JudgeSection(precision_floor=0.0),
        guidance=GuidanceSection(after_failures=1, share=0.4),
        train=EmbeddedSftSpec(min_updates=5, max_updates=10),
        evaluate=EvaluateSection(episodes=2, train_sample=2, promote_without_evidence=True),
        # Trials of manuals would double the attempts of each test that derives them.
        derive=DeriveSpec(planning=PlanningSpec(trials=0)),
    )


def do(name: str, context: RoundContext) -> StageReport:
    """One stage."""
    return do_stage(next(stage for stage in STAGES if stage.name == name), context)


def up_to(name: str, context: RoundContext) -> StageReport:
    """All stages up to one; the report of that one."""
    reports = [do_stage(stage, context) for stage in STAGES[: [stage.name for stage in STAGES].index(name) + 1]]
    return reports[-1]


def run_stages(config: Config, rounds: int | None = None) -> None:
    """All stages of the first rounds, by default of all rounds, without Prefect."""
    warehouse = create_warehouse(config.run.root)
    for number in range(1, (rounds or config.run.rounds) + 1):
        for stage in STAGES:
            do_stage(stage, RoundContext(config, warehouse, number))
