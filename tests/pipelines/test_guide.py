import json
import pickle
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, walk_phone
from tests.stages.models.fault_server import FaultServer, running_server
from trajmill.pipelines.judge import WriteGuidance
from trajmill.schemas.record import Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path
from trajmill.warehouse.shards import write_tables

pytestmark = pytest.mark.slow

ROLLOUT, GUIDE = StageRun(ORIGIN.run_id, 1, "rollout"), StageRun(ORIGIN.run_id, 1, "guide")
TRAJECTORIES = 3
IDS = [f"{number:024d}" for number in range(TRAJECTORIES)]


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    # The beginning and the end: pictures take their time.
    whole = walk_phone()
    steps = (*whole.episode.steps[:2], whole.episode.steps[-1].model_copy(update={"index": 2}))
    return PhoneWalk(whole.episode.model_copy(update={"steps": steps}), whole.observations)


@pytest.fixture
def stored(tmp_path: Path, walk: PhoneWalk) -> Warehouse:
    warehouse, episode = create_warehouse(tmp_path / "data"), walk.episode
    named = [{"trajectory_id": name} for name in IDS]
    rows: dict[str, Sequence[Row]] = {
        "queries": [episode.query],
        "trajectories": [episode.trajectory.model_copy(update=name) for name in named],
        "steps": [step.model_copy(update=name) for name in named for step in episode.steps],
    }
    with closing(ScreenJournal(journal_path(warehouse, ROLLOUT, "00000"))) as journal:
        journal.append(*walk.observations.values())
    screens = NewScreens(warehouse, ROLLOUT, ORIGIN, made_by="test").write()
    commit_stage(warehouse, ROLLOUT, {**write_tables(warehouse, ROLLOUT, rows), "screens": screens})
    return warehouse


def spec(server: FaultServer, name: str) -> Endpoint:
    patience = {"attempts": 2, "first_wait_seconds": 0.001, "probe_seconds": 0.001}
    return Endpoint(
        OpenAiSpec.model_validate({"urls": (server.url,), "model": name, "family": "qwen2.5-vl", **patience})
    )


def writes(body: dict[str, Any]) -> str:
    if "steps" in body["response_format"]["json_schema"]["schema"]["properties"]:
        return json.dumps({"steps": ["Open it.", "Say \x00 \u2028 so."]})
    return json.dumps({"outcome": "Opened it.", "result": "as expected", "reason": ""})


def test_guidance_and_its_model_calls_are_committed(stored: Warehouse) -> None:
    with running_server(models=("sees", "writes"), writes=writes, seconds=0.25) as server:
        rounds, models = dict.fromkeys(IDS, ROLLOUT.round), (spec(server, "sees"), spec(server, "writes"))
        work = WriteGuidance(stored, GUIDE, ORIGIN, frozenset(IDS[:1]), rounds, *models, concurrency=3)
        commit_stage(stored, GUIDE, pickle.loads(pickle.dumps(work))("00000", IDS).files)
        assert 1 < server.most_in_flight <= 3
        pictures = [request.pictures for request in server.received if request.body["model"] == "sees"]
    guidance, calls = read_rows(stored, Guidance), read_rows(stored, ModelCall)
    described = len(guidance[0].step_descriptions) - 1
    assert all(len(sent) == 2 for sent in pictures) and len(pictures) == TRAJECTORIES * described
    assert {row.source_trajectory: row.source for row in guidance} == {
        trajectory: "reference_path" if trajectory == IDS[0] else "own_success" for trajectory in IDS
    }
    assert {row.text for row in guidance} == {"1. Open it.\n2. Say \ufffd so."}
    assert {row.made_by for row in guidance} == {"writer_guidance-1@writes describer_step-1@sees"}
    assert read_rows(stored, Failure) == []
    assert Counter((call.role, call.made_by) for call in calls) == {
        ("describer", "sees"): TRAJECTORIES * described,
        ("writer", "writes"): TRAJECTORIES,
    }
    assert {call.trajectory_id for call in calls} == set(IDS)
    screens = [part["screen"] for call in calls for part in _parts(call) if isinstance(part, dict)]
    assert len(screens) == 2 * TRAJECTORIES * described and all(
        screen[:24] in WarehouseScreens(stored) for screen in screens
    )


def _parts(call: ModelCall) -> list[Any]:
    return [part for message in json.loads(call.messages) for part in message["content"]]
