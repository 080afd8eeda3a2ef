"""A run in a bucket whose policy is trained elsewhere: each command on a machine that has nothing but the address."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.flows.policies.network import NOBODY_TRAINS, network_folder
from tests.flows.tasks.test_train import first_waiting, tiny_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.policies.addition import Addition, add_and_evaluate, list_policies, promote_policy, roll_back_policy
from trajmill.flows.stage import RoundContext
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


def bucket_config(url: str, policy: Path) -> Config:
    """Small rounds in a bucket, whose policy is an embedded one that this run does not train."""
    small = tiny_config(Path("unused"))
    return small.model_copy(
        update={
            "run": small.run.model_copy(update={"root": BucketUrl(url)}),
            "models": ModelsSection(policy="mine"),
            "endpoints": {"mine": EmbeddedSpec(model=policy)},
            "train": NOBODY_TRAINS,
            "rollout": small.rollout.model_copy(update={"episodes_per_round": 8}),
        }
    )


def test_a_policy_is_added_listed_rolled_back_promoted_and_acts(bucket_url: str, tmp_path: Path) -> None:
    folders = [network_folder(tmp_path / name, seed) for seed, name in ((3, "first"), (5, "second"))]
    first, second = (EmbeddedSpec(model=folder).version for folder in folders)
    config = bucket_config(bucket_url, folders[0])

    def on_another_machine() -> RoundContext:
        shutil.rmtree(tmp_path / "caches")
        return RoundContext.of(config)

    waits = first_waiting(RoundContext.of(config))
    assert waits is not None and "then `trajmill policy add --model NAME`" in waits.waiting
    on_another_machine()
    decided = add_and_evaluate(config, Addition(model=str(folders[1])))
    assert decided.result["promoted"], decided.result["reason"]
    on_another_machine()
    # The folder that was added is on the machine where it was added; the configured one is on each.
    folders[1] = folders[1].rename(tmp_path / "elsewhere")
    listed = {each.row.model_version: each.in_force for each in list_policies(config)}
    assert listed == {first: False, second: True}
    with pytest.raises(BadInputError, match=f"{second} is in force already"):
        add_and_evaluate(config, Addition(model=str(folders[1])))
    roll_back_policy(config)
    promote_policy(config, second)
    context = on_another_machine()
    assert first_waiting(context.in_round(2)) is not None
    rows = read_rows(context.warehouse, Trajectory)
    acted = {number: {row.model_version for row in rows if row.round == number} for number in (0, 1, 2)}
    assert acted[0] == {first} and {first, second} <= acted[1] and second in acted[2] and first not in acted[2]
    assert {row.model_version for row in read_rows(context.warehouse, PolicyVersion)} == {first, second}
