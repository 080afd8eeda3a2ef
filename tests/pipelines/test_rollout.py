import asyncio
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.killed_rollout import AT, ATTEMPTS, CONCURRENCY, FailingElsewhere, run_rollout
from tests.stages.rollout.toy import ORIGIN, ToyEnvironment, toy_query
from tests.warehouse.samples import observation, stage_run
from trajmill.pipelines.drawing import screens_in_background
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.rollout import JOURNALS, Journaled, attempt_record
from trajmill.schemas.actions import Action, Answer, OpenApp, PressKeys, Terminate, TypeText
from trajmill.schemas.episode import AttemptRows
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import NewScreens, ScreenJournal, journal_path
from trajmill.warehouse.staging import Journal

pytestmark = pytest.mark.slow

TIMES = {"wall_ms", "environment_ms", "latency_ms", "written_at"}
TABLES = ("trajectories", "steps", "model_calls", "screens", "failures")
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.pipelines.killed_rollout"])


def run(root: Path, workers: int, kill_at: int) -> int | None:
    process = PROCESSES.Process(target=run_rollout, args=(root, workers, kill_at))
    process.start()
    process.join()
    return process.exitcode


def rows(root: Path) -> Mapping[str, list[str]]:
    found = {table: read_table(open_warehouse(root), table) for table in TABLES}
    return {
        table: sorted(map(repr, data.drop_columns(TIMES.intersection(data.column_names)).to_pylist()))
        for table, data in found.items()
    }


def episodes(root: Path) -> Counter[str]:
    return Counter(root.with_suffix(".episodes").read_text().split())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    root = tmp_path_factory.mktemp("undisturbed") / "warehouse"
    assert run(root, workers=1, kill_at=0) == 0
    assert set(episodes(root).values()) == {1}
    found = rows(root)
    assert len(found["trajectories"]) == len(ATTEMPTS) and len(found["screens"]) == len(ATTEMPTS) + 1
    return found


@pytest.mark.parametrize(("workers", "kill_at"), [((1, 2), 13), ((2, 1), 5)])
def test_a_killed_rollout_goes_on_with_another_number_of_workers(
    tmp_path: Path, undisturbed: Mapping[str, list[str]], workers: tuple[int, int], kill_at: int
) -> None:
    root, (before, after) = tmp_path / "warehouse", workers
    assert run(root, before, kill_at) == -signal.SIGKILL
    journals = AT.staging(open_warehouse(root)).glob(JOURNALS)
    finished = sum(1 for path in journals for _ in Journal(path).read())
    # Several workers go on for a moment after their driver.
    assert before > 1 or kill_at - CONCURRENCY <= finished < kill_at
    assert run(root, after, kill_at=0) == 0
    assert rows(root) == undisturbed
    # Only what was under way when the process died is begun anew.
    assert before > 1 or episodes(root).total() == len(ATTEMPTS) + kill_at - finished


def test_after_an_error_in_another_process_nobody_begins_further_attempts(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"\Atoy.yaml:1: wrong\Z"):
        run_rollout(tmp_path / "warehouse", 2, 0, FailingElsewhere)
    assert episodes(tmp_path / "warehouse").total() <= CONCURRENCY


def test_an_error_of_the_writing_of_screens_is_told(tmp_path: Path) -> None:
    warehouse, at = create_warehouse(tmp_path / "warehouse"), stage_run()
    warehouse.table("screens").write_text("no folder")
    screens = NewScreens(warehouse, at, Origin(round=at.round, run_id=at.run_id, code_version="test"), "draw-v1")
    ScreenJournal(journal_path(warehouse, at, "00000")).append(observation(1))
    with pytest.raises(OSError, match="screens"), screens_in_background(screens) as write_now:
        write_now()


ACTIONS: tuple[Callable[[str], Action | None], ...] = (
    lambda text: None,
    lambda text: TypeText(text=text),
    lambda text: PressKeys(keys=(text, text)),
    lambda text: OpenApp(app=text),
    lambda text: Answer(text=text),
    lambda text: Terminate(status="success"),
)


@dataclass(frozen=True)
class Babbler:
    text: str
    action: Action | None
    name: str = "babbler"
    model_version: str = "none"

    async def act(self, episode: EpisodeView) -> Decision:
        text = self.text
        request = ChatRequest("policy", (ChatMessage("user", (text, episode.observation)),))
        call = AgentCall(request, Completion(text, 1, 1, "stop"), 1.0, error=text)
        return Decision(text, self.action, text, text, prompt=text, role_outputs={text: text}, calls=(call,))


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters()), make=st.sampled_from(ACTIONS))
def test_any_text_becomes_rows(text: str, make: Callable[[str], Action | None]) -> None:
    attempt, agent = Attempt(toy_query(max_steps=2), Purpose.TRAIN, 0, 1), Babbler(text, make(text))
    rollout = asyncio.run(run_episode(attempt, agent, ToyEnvironment(), Limits(), ORIGIN))
    for table, rows in Journaled([AttemptRows.model_validate_json(attempt_record(rollout))]).rows().items():
        rows_to_arrow(table, rows).validate(full=True)


def identity(weights: str) -> object:
    return ActingAgent(EndToEndSpec(), Endpoint(EmbeddedSpec(model=Path(weights)))).identity()


def test_what_an_agent_does_is_the_same_wherever_its_weights_lie() -> None:
    assert identity("/here/models/v1") == identity("/elsewhere/models/v1")
    assert identity("/here/models/v1") != identity("/here/models/v2")
