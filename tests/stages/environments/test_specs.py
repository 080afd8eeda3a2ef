import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.queries.pathways.toy import PROGRAM, Toy
from trajmill.schemas.actions import Click, Wait
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.android.task import PhoneGoal, PhoneStart
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.desktop.task import import_tasks
from trajmill.stages.environments.kinds import ENVIRONMENTS, BrowserSpec, DevicesTogetherSpec, FaultRates, SimulatedSpec
from trajmill.stages.environments.screen_goal import with_checks
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.pathways.programs import start_query

FOLDER = Path(__file__).parents[3] / "docs/examples/tasks"
ORIGIN = Origin(round=1, run_id="run", code_version="code")
TASK = (
    '{"instruction": "Send it.", "apps": ["form"], "start_state": {"url": "http://127.0.0.1:8000/form"},'
    ' "goal": {"all": [{"check": "text", "selector": "#sent", "equals": "Sent"}]}, "split": "heldout_slots"}'
)


@pytest.mark.parametrize("kind", ENVIRONMENTS.built_in)
def test_the_spec_of_a_kind_is_complete_without_a_key_and_reaches_workers(kind: str) -> None:
    spec = ENVIRONMENTS.spec_class(kind).model_validate({})
    assert isinstance(spec, EnvironmentSpec)
    assert spec.kind == kind
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [("android", "adbutils", "android"), ("browsergym", "browsergym", "browsergym"), ("browser", "playwright", "web")],
)
def test_without_a_package_one_line_says_what_to_install(kind: str, package: str, extra: str) -> None:
    # In a process of its own: another test may have imported what needs the package.
    code = f"""
import asyncio, sys
sys.modules["{package}"] = None
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import ENVIRONMENTS
try:
    asyncio.run(ENVIRONMENTS.spec_class("{kind}")().factory(Platform.WEB)())
except Exception as error:
    print(type(error).__name__, error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == f"EnvironmentFailure {package} is not installed; run `pip install 'trajmill[{extra}]'`\n"


def test_where_episodes_happen_is_no_part_of_a_run_and_what_happens_is() -> None:
    there = AndroidSpec(host="10.0.0.7", port=5038, serials=("emulator-5554",), call_seconds=9.0, lease_seconds=1.0)
    assert there.identity() == AndroidSpec().identity()
    assert AndroidSpec(settle_seconds=1.0).identity() != AndroidSpec().identity()
    assert DesktopSpec(servers=("http://10.0.0.7:5000",)).identity() == DesktopSpec().identity()
    assert BrowserSpec(tasks=FOLDER / "browser.jsonl").identity() != BrowserSpec().identity()
    assert SimulatedSpec(faults=FaultRates(slow=0.1)).identity() != SimulatedSpec().identity()


def test_a_spec_says_which_of_its_keys_must_be_set() -> None:
    for spec in (BrowserSpec(), AndroidSpec(), DevicesTogetherSpec()):
        assert [each.key for each in spec.missing(other_queries=False)] == ["tasks"]
        assert spec.missing(other_queries=True) == []
    assert DesktopSpec().missing(other_queries=False) == []


def test_task_lines_of_the_browser_become_queries(tmp_path: Path) -> None:
    queries = BrowserSpec().read_tasks(FOLDER / "browser.jsonl", ORIGIN)
    assert [query.split for query in queries] == [Split.TRAIN, Split.VALIDATION, Split.TRAIN]
    assert [step.operation for step in queries[0].path] == ["tap", "type", "tap", "finish"]
    (tmp_path / "tasks.jsonl").write_text(f"{TASK}\n\n")
    (query,) = BrowserSpec().read_tasks(tmp_path / "tasks.jsonl", ORIGIN)
    assert (query.platform, query.task, query.split) == (Platform.WEB, "form", Split.HELDOUT_SLOTS)


def test_task_lines_of_a_device_become_queries(tmp_path: Path) -> None:
    (on_desktop,) = import_tasks(FOLDER / "desktop", 0.0, ORIGIN)
    assert on_desktop.path[-1].operation == "finish"
    queries = AndroidSpec().read_tasks(FOLDER / "android.jsonl", ORIGIN)
    assert [PhoneStart.model_validate_json(query.start_state).open for query in queries] == ["Settings", ""]
    assert [bool(PhoneGoal.model_validate_json(query.goal).files) for query in queries] == [False, True]
    assert len({query.query_id for query in queries}) == 2
    (tmp_path / "tasks.jsonl").write_text('{"instruction": "Turn Wi-Fi off.", "apps": ["com.android.settings"]}')
    (query,) = AndroidSpec().read_tasks(tmp_path / "tasks.jsonl", ORIGIN)
    assert (query.source, query.task, query.goal) == (Source.IMPORTED, "com.android.settings", "{}")


def test_a_mistake_gives_one_error_line_with_its_place(tmp_path: Path) -> None:
    for text, reason in (
        ("\n", "has no tasks"),
        ("nonsense", ":1: the line: Invalid JSON"),
        ("[" * 100_000, ":1: the line: Invalid JSON"),
        (f"\n{TASK.replace('http:', 'file:')}", ":2: start_state: 'file:"),
        (TASK.replace('"check": "text"', '"check": "guess"'), ":1: goal.all.0: "),
        ('{"instruction": "x", "apps": [], "goal": {"shell": "rm"}}', "goal.shell is an unknown key"),
        ("", "name a file"),
    ):
        file = tmp_path / "tasks.jsonl"
        file.write_text(text) if text else file.unlink()
        with pytest.raises(BadInputError) as caught:
            (AndroidSpec() if "shell" in reason else BrowserSpec()).read_tasks(file, ORIGIN)
        assert reason in str(caught.value) and "\n" not in str(caught.value)


EDIT_MENU = Click(x=110, y=30)


class _ScoredToy(Toy):
    """A toy with a check of its own: that it was reset for a goal which says so."""

    goal = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        self.goal = query.goal
        return await super().reset(query, seed)

    async def score(self) -> float | None:
        return {"{}": None, '{"own": 1}': 1.0, '{"own": 0}': 0.0}[self.goal]


def query(goal: object) -> Query:
    return start_query(PROGRAM, ORIGIN).model_copy(update={"goal": json.dumps(goal)})


async def scores_of(goal: object) -> list[float | None]:
    environment = with_checks(_ScoredToy([]), query(goal))
    await environment.reset(query(goal), 0)
    scores = []
    for action in (Wait(), EDIT_MENU):
        await environment.step(action)
        scores.append(await environment.score())
    return scores


COPY = {"role": "menu_item", "text": "Copy"}


@pytest.mark.parametrize(
    ("goal", "scores"),
    [
        ({"showing": [COPY]}, [0.0, 1.0]),
        ({"showing": [COPY | {"state": "clickable"}]}, [0.0, 0.0]),
        ({"showing": [COPY, {"role": "menu_item", "text": "Nothing"}]}, [0.0, 0.0]),
        ({"showing": [{"id": "toy/Edit/menu_item:Copy", "any_state": ["checked", "disabled"]}]}, [0.0, 1.0]),
        ({"showing": [{"id": "toy/Edit/menu_item:Copy", "any_state": ["checked"]}]}, [0.0, 0.0]),
        ({"lacking": [COPY]}, [1.0, 0.0]),
        ({"showing": [COPY], "own": 0}, [0.0, 0.0]),
        ({"showing": [COPY], "own": 1}, [0.0, 1.0]),
        ({}, [None, None]),
    ],
)
async def test_what_must_show_and_the_own_goal_must_both_be_met(goal: object, scores: list[float | None]) -> None:
    assert await scores_of(goal) == scores


def test_another_goal_leaves_an_environment_as_it_is_and_one_that_cannot_be_read_is_a_fault_of_the_task() -> None:
    toy = Toy([])
    assert with_checks(toy, query({"own": 1})) is toy
    with failing(FailureClass.TASK, "needs one of the keys"):
        with_checks(toy, query({"showing": [{"state": "checked"}]}))
