"""A whole round whose every model is one that understands nothing: failures are failures, and the loop holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.small_run import run_stages, small_config
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS
from tests.vllm.conftest import TinyServer
from tests.vllm.tiny_server import MODEL
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.stage import RoundContext, report_of
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]


def config(root: Path, server: TinyServer) -> Config:
    """One small round with every role on the server."""
    small = small_config(root, rounds=1)
    return small.model_copy(
        update={
            "queries": small.queries.model_copy(
                update={
                    "train": 2,
                    "heldout_slots": 1,
                    "heldout_phrasings": 0,
                    "heldout_app_names": (),
                    "validation": 0,
                }
            ),
            "rollout": small.rollout.model_copy(update={"episodes_per_round": 3, "group_size": 1}),
            "evaluate": small.evaluate.model_copy(update={"episodes": 1, "train_sample": 0}),
            "environment": SimulatedSpec(builtin_apps=("messages",)),  # its tasks are short
            "agent": EndToEndSpec(max_tokens=8),
            "models": ModelsSection(
                policy="tiny",
                writer="tiny",
                describer="tiny",
                critic=CriticRoles(step="tiny", text=("tiny",), multimodal=("tiny",)),
            ),
            "endpoints": {
                "tiny": OpenAiSpec(
                    model=MODEL, urls=(server.address,), family="qwen2.5-vl", max_pixels=MAX_PIXELS, attempts=2
                )
            },
        }
    )


def test_a_round_that_is_played_and_judged_by_a_server(server: TinyServer, tmp_path: Path) -> None:
    whole = config(tmp_path / "warehouse", server)
    run_stages(whole)
    warehouse = open_warehouse(whole.run.root)
    assert report_of(RoundContext(whole, warehouse, 1), PROMOTE) is not None
    calls = read_rows(warehouse, ModelCall)
    assert {"policy", "writer", "critic.step"} <= {call.role for call in calls}
    assert all(call.error or call.input_tokens > 0 for call in calls)
    attempted = {row.trajectory_id for row in read_rows(warehouse, Trajectory)}
    judged = {row.trajectory_id for row in read_rows(warehouse, Judgement)}
    failures = read_rows(warehouse, Failure)
    unjudged = {row.input_id for row in failures if row.stage == "judge"}
    assert attempted
    assert judged.isdisjoint(unjudged)
    assert {row.failure_class for row in failures} <= {
        FailureClass.MODEL,
        FailureClass.JUDGE,
        FailureClass.PARSE,
        FailureClass.TASK,
    }
