"""A served policy goes round: rolled out by vLLM, trained with LoRA, compared, swapped in; its lineage is whole.

In one round every model is one that understands nothing: failures are failures, and the loop holds.
"""

import json
from pathlib import Path

import pytest

from tests.flows.runs import changed, first_waiting, run_stages
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS
from tests.vllm.conftest import TinyServer, config_with
from tests.vllm.tiny_adapter import tiny_adapter
from tests.vllm.tiny_server import MODEL
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.policies.commands import Addition, add_and_evaluate, list_policies
from trajmill.flows.policies.policy import PROMOTE, policy_before
from trajmill.flows.round import summary_of
from trajmill.flows.serving.model_server import served_models, unload_adapter
from trajmill.flows.stage import RoundContext, report_of
from trajmill.flows.tasks.release import release_name
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.training.hugging_face.spec import TrpoSpec
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

TRAINER = Path(__file__).parents[2] / ".venv-trainers" / "trl" / "bin" / "python"


def config(root: Path, server: TinyServer) -> Config:
    """Rounds of a policy that understands nothing; accepted are the demonstrations of what it fails at."""
    endpoint = {"weights": server.weights, "max_pixels": MAX_PIXELS // 2}
    return changed(
        config_with(server, root, 2, endpoint, validation=1),
        rollout={"episodes_per_round": 4, "group_size": 2},
        guidance={"demonstrate": True, "share": 0.5},
        # Nothing is ever achieved, so no group has rewards that differ.
        rl={"tokens": False, "keep_without_spread": True},
    )


@pytest.mark.skipif(not TRAINER.exists(), reason="the trainers are not there: `make trainers-env` installs them")
def test_a_served_policy_learns_from_its_stored_replies_is_compared_and_swapped_in(
    server: TinyServer, tmp_path: Path
) -> None:
    short = {"lora_rank": 4, "max_updates": 1, "batch": 2, "rows_at_once": 2, "learning_rate": 0.01}
    recipe = TrpoSpec.model_validate({"python": str(TRAINER), "old_log_probs": "stored", **short})
    base = config(tmp_path / "warehouse", server)
    context = RoundContext.of(changed(base, train=recipe, rl={"tokens": True}))
    rounds = (1, 2)
    for number in rounds:
        assert first_waiting(context.in_round(number)) is None, number
    last = policy_before(context.in_round(3))
    assert last.version != MODEL, [summary_of(context.in_round(number)).reason for number in rounds]
    rows = {row.model_version: row for row in read_rows(context.warehouse, PolicyVersion)}
    row = rows[last.version]
    assert row.release == release_name(context.in_round(row.round)) and row.parent in rows
    metrics = context.warehouse.model(last.version) / "metrics.json"
    assert 0 <= json.loads(metrics.read_text())["history"][0]["clipped"] <= 1
    weights, adapter = last.paths(context.warehouse)
    assert adapter is not None and (adapter / "adapter_config.json").is_file() and weights == server.weights
    assert served_models(server.address) == frozenset({MODEL, last.version}), "what acts no longer is unloaded"
    for number in rounds:
        assert acted(context, number) == {summary_of(context.in_round(number)).policy_before}
    assert row.round == 2 and rows[row.parent].parent == MODEL, "the second adapter was trained on from the first"
    unload_adapter(server.address, last.version)


def acted(context: RoundContext, number: int) -> set[str]:
    """The versions that a round rolled out."""
    rows = read_rows(context.warehouse, Trajectory, rounds=[number])
    return {row.model_version for row in rows if row.purpose is Purpose.TRAIN}


def test_an_adapter_of_somebody_else_is_added_or_refused(server: TinyServer, tmp_path: Path) -> None:
    whole = config(tmp_path / "warehouse", server)
    context = RoundContext.of(whole)
    waiting = first_waiting(context)
    assert waiting is not None and "trajmill policy add --model NAME" in waiting.waiting
    too_large = tiny_adapter(tmp_path, "too-large", seed=1, rank=64)
    with pytest.raises(BadInputError, match=r"\A[^\n]*did not load the LoRA adapter too-large-[^\n]+\Z"):
        add_and_evaluate(whole, Addition(adapter=too_large))
    with pytest.raises(BadInputError, match=r"\A[^\n]*does not serve nobody, but tiny-vlm\Z"):
        add_and_evaluate(whole, Addition(model="nobody"))
    assert list_policies(whole)[0].in_force
    decided = add_and_evaluate(whole, Addition(adapter=tiny_adapter(tmp_path, "mine", seed=2)))
    assert decided.result["promoted"], decided.result["reason"]
    (added,) = [each for each in list_policies(whole) if each.in_force]
    assert added.row.adapter == f"models/{added.row.model_version}" and added.row.parent == MODEL
    assert served_models(server.address) == frozenset({MODEL, added.row.model_version})
    unload_adapter(server.address, added.row.model_version)


def test_a_round_that_is_played_and_judged_by_a_server(server: TinyServer, tmp_path: Path) -> None:
    tiny = config_with(server, tmp_path / "warehouse", 1, {"max_pixels": MAX_PIXELS}, heldout_slots=1)
    critics = CriticRoles(step="tiny", text=("tiny",), multimodal=("tiny",))
    models = ModelsSection(policy="tiny", writer="tiny", describer="tiny", critic=critics)
    whole = changed(tiny, models=models, rollout={"episodes_per_round": 3, "group_size": 1})
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
    expected = {FailureClass.MODEL, FailureClass.JUDGE, FailureClass.TASK}
    assert {row.failure_class for row in failures} <= expected
