import asyncio
from pathlib import Path

import pytest

from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import derived
from tests.stages.export.formats.folders import SOURCE
from tests.stages.export.stored import StoredScreens
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Action, Click, Swipe, SystemButton, TypeText
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY, family_named
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.stages.derive.spec import CesDataSpec
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.formats.trainers import FeedbackFormat
from trajmill.stages.metrics.action_match import RightAction
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.training.hugging_face.encoding import supervised_files
from trajmill.stages.training.hugging_face.feedback import (
    FeedbackTask,
    executed_action,
    feedback_tasks,
    reward_of,
    score_of,
)
from trajmill.stages.training.hugging_face.spec import CesStage1Spec, CesStage2Spec, CodaSpecialistSpec, FeedbackRecipe

pytestmark = pytest.mark.slow  # its imports alone take five seconds
STAGE_1 = CesStage1Spec(executor="executor")
SPECIALIST = CodaSpecialistSpec(executor="executor")
SCREEN, BOX = Size(1000, 2000), Box(100, 100, 300, 200)
TARGET = RightAction(Click(x=200, y=150), BOX, SCREEN)
GOOD = "<think>The wallet is shown.</think><answer>Tap it.</answer>"


@pytest.mark.parametrize(
    ("role", "reply", "expected"),
    [
        ("coordinator", GOOD, True),
        ("coordinator", f" {GOOD}\n", True),
        ("coordinator", "<answer>Tap it.</answer>", False),
        ("coordinator", f"{GOOD} And so on.", False),
        ("coordinator", "<think></think><answer>Tap it.</answer>", False),
        ("coordinator", "<think>a</think><answer> </answer>", False),
        ("coordinator", "<think>a</think><answer>b</answer><answer>c</answer>", False),
        ("coordinator", "<think>a<answer>b</answer></think><answer>c</answer>", False),
        ("state_tracker", "<answer>The wallet is open.</answer>", True),
        ("state_tracker", "<think>So.</think>\n<answer>The wallet\nis open.</answer>", True),
        ("state_tracker", "The wallet is open.", False),
        ("planner", "Tap the wallet.", True),
        ("planner", "<think>So.</think> Tap the wallet.", True),
        ("planner", "<think>So.</think>", False),
    ],
)
def test_the_format_of_a_role(role: str, reply: str, expected: bool) -> None:
    assert score_of(role, reply, None, TARGET).format == expected


@pytest.mark.parametrize(
    ("action", "right", "kind", "parameters"),
    [
        (Click(x=299, y=199), TARGET, 1, 1),
        (Click(x=301, y=150), TARGET, 1, 0),
        (TypeText(text="Tap"), TARGET, 0, 0),
        (None, TARGET, 0, 0),
        (TypeText(text="new york city"), RightAction(TypeText(text="New York"), None, SCREEN), 1, 1),
        (TypeText(text="Boston city"), RightAction(TypeText(text="New York"), None, SCREEN), 1, 0),
        (Swipe(x=5, y=900, x2=5, y2=100), RightAction(Swipe(x=9, y=500, x2=9, y2=50), None, SCREEN), 1, 1),
        (Swipe(x=5, y=100, x2=5, y2=900), RightAction(Swipe(x=9, y=500, x2=9, y2=50), None, SCREEN), 1, 0),
        (SystemButton(button="Home"), RightAction(SystemButton(button="Home"), None, SCREEN), 1, 1),
    ],
)
@pytest.mark.parametrize("reply", [GOOD, "Tap it."])
def test_the_reward_of_ces(action: Action | None, right: RightAction, kind: int, parameters: int, reply: str) -> None:
    """Equations 21 to 25, with the coefficients of B.2."""
    expected = 0.1 * (reply == GOOD) + 0.9 * (0.2 * kind + 0.8 * parameters)
    for recipe in (STAGE_1, CesStage2Spec(executor="executor", coordinator="coordinator")):
        score = score_of("coordinator", reply, action, right)
        assert reward_of(recipe, score) == pytest.approx(expected, rel=1e-12)


def test_the_reward_of_coda() -> None:
    """Equation 1: 1 for the type, plus a closeness of the parameters from 0 to 1."""
    # 50 of 1000 pixels beside the element, of the 14 % of the screen within which a position earns something.
    beside = score_of("planner", "Tap.", Click(x=349, y=150), TARGET)
    assert reward_of(SPECIALIST, beside) == pytest.approx(2 - 0.05 / 0.14, rel=1e-12)
    assert reward_of(SPECIALIST, score_of("planner", "Tap.", Click(x=5, y=1995), TARGET)) == 1
    assert reward_of(SPECIALIST, score_of("planner", "Tap.", TARGET.action, TARGET)) == 2
    assert reward_of(SPECIALIST, score_of("planner", "Tap.", TypeText(text="x"), TARGET)) == 0


def test_the_settings_are_those_of_the_paper() -> None:
    """CES, table 4: learning rate, epochs, batch, clip range, replies, their length."""
    second = CesStage2Spec(executor="executor", coordinator="coordinator")
    for recipe, epochs, longest in ((STAGE_1, 10, 256), (second, 5, 512)):
        assert (recipe.learning_rate, recipe.epochs, recipe.batch) == (1e-6, epochs, 32)
        assert (recipe.clip_ratio, recipe.samples, recipe.max_tokens) == (0.2, 4, longest)


@pytest.mark.parametrize(
    ("recipe", "good"),
    [
        (STAGE_1, GOOD),
        (CesStage2Spec(executor="executor", coordinator="coordinator"), "<answer>The wallet is shown.</answer>"),
        (SPECIALIST, "Tap the wallet."),
    ],
    ids=["coordinator", "state_tracker", "planner"],
)
def test_silence_earns_nothing_whatever_the_frozen_roles_do(recipe: FeedbackRecipe, good: str) -> None:
    """Even if the Executor would act rightly without a word of the role."""
    frame = ANY.frame(SCREEN)
    taps = ScriptedModel(lambda _: ANY.mobile.render(Reply("", TARGET.action, ""), frame))
    wrong = ScriptedModel(lambda _: ANY.mobile.render(Reply("", Click(x=900, y=1900), ""), frame))
    instructs = ScriptedModel(lambda _: GOOD)
    screens = tuple(ScreenHandle(name, SCREEN, lambda: b"") for name in ("before", "now"))
    asked = (ChatMessage("user", ("Open the wallet.",)),)
    task = FeedbackTask("t", asked, "Open the wallet.", Platform.PHONE, screens, (), TARGET)

    def earned(reply: str, executor: ScriptedModel) -> float:
        models = {"executor": executor, "coordinator": instructs}
        action = asyncio.run(executed_action(recipe, models, ANY, task, reply))
        return reward_of(recipe, score_of(recipe.role, reply, action, TARGET))

    silence = ["", " \n", "<think>Hm.</think>", "<think>Hm.</think><answer></answer>", "<think>Tap the wal"]
    assert {earned(reply, taps) for reply in silence} == {0.0}
    assert earned(good, taps) == pytest.approx(2 if recipe is SPECIALIST else 1)
    if recipe is not SPECIALIST:
        # Format 0.1, and 0.9 * 0.2 for an action of the right type (equations 21 and 23).
        assert earned(good, wrong) == pytest.approx(0.1 + 0.9 * 0.2)
        assert earned(good, ScriptedModel(lambda _: "no action")) == pytest.approx(0.1)


WALLET = Box(300, 800, 400, 850)
FAMILY = family_named("qwen2.5-vl")


def written(folder: Path) -> list[Path]:
    wallet = step(0, TAP).model_copy(update={"target": TargetElement(role="button", text="Wallet", bounds=WALLET)})
    done = episode([wallet, step(1, TAP), step(2, DONE)])
    rows = derived(CesDataSpec(), done).examples
    screens = StoredScreens()
    made = [kind_example(FAMILY, done, row, 1.0, screens) for row in rows]
    assert all(isinstance(one, StepExample) and one.target is None and one.leads_to for one in made)
    folder.mkdir()
    write_folder(folder, FeedbackFormat(), FAMILY, SOURCE, ReleaseSteps(made), screens)
    return supervised_files(folder)


def test_a_coordinators_row_leads_to_the_action_of_its_step(tmp_path: Path) -> None:
    tasks = feedback_tasks(CesStage1Spec(executor="e"), written(tmp_path / "pool"), tmp_path)
    found = {task.past: task for task in map(tasks.task, range(len(tasks)))}
    assert len(found) == 2, "a row for each step but that on the nameless element"
    first = found[()]
    assert first.right == RightAction(TAP, WALLET, StoredScreens().size("s0"))
    assert [screen.screen_id for screen in first.screens] == ["s0"] and first.instruction == "Order q"
    (last,) = (task for past, task in found.items() if past)
    assert [conclusion for _, conclusion in last.past] == ["Did 0", "Did 1"] and last.right.action == DONE


def test_a_state_trackers_row_borrows_the_screen_of_the_coordinators(tmp_path: Path) -> None:
    tasks = feedback_tasks(CesStage2Spec(executor="e", coordinator="c"), written(tmp_path / "pool"), tmp_path)
    assert len(tasks) == 1, "the row that leads to the nameless element has no screen"
    task = tasks.task(0)
    assert task.right.action == DONE and [screen.screen_id for screen in task.screens] == ["s2"]
    parts = [part for message in task.messages for part in message.parts]
    assert not any(isinstance(part, ScreenHandle) for part in parts)


def test_rows_that_lead_to_no_action_are_refused(tmp_path: Path) -> None:
    done = episode([step(0, DONE)])
    (row,) = derived(CesDataSpec(), done).examples
    made = kind_example(FAMILY, done, row.model_copy(update={"kind": "roles"}), 1.0, StoredScreens())
    (tmp_path / "pool").mkdir()
    with pytest.raises(BadInputError, match="leads to no action: execution feedback takes ces and coda"):
        write_folder(tmp_path / "pool", FeedbackFormat(), FAMILY, SOURCE, ReleaseSteps([made]), StoredScreens())
