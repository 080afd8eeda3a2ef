from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("datasets", reason="the extra `train` is not installed")

from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import derived
from tests.stages.export.formats.folders import SOURCE
from tests.stages.export.stored import StoredScreens
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.stages.derive.spec import CesDataSpec
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.formats.trainers import FeedbackFormat
from trajmill.stages.metrics.action_match import RightAction
from trajmill.stages.training.execution_feedback.chain import feedback_tasks
from trajmill.stages.training.execution_feedback.spec import CesStage1Spec, CesStage2Spec
from trajmill.stages.training.hugging_face.encoding import supervised_files

BOX = Box(300, 800, 400, 850)
FAMILY = family_named("qwen2.5-vl")


def written(folder: Path) -> list[Path]:
    wallet = step(0, TAP).model_copy(update={"target": TargetElement(role="button", text="Wallet", bounds=BOX)})
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
    assert first.right == RightAction(TAP, BOX, StoredScreens().size("s0"))
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
