import io
import json
from pathlib import Path

import pytest
from PIL import Image

from tests.stages.derive.samples import DONE, TAP, episode, query, step
from tests.stages.export.formats.folders import SOURCE
from tests.stages.export.stored import StoredScreens
from tests.trainers.conftest import TEMPLATES, Processes, packages_of
from tests.trainers.loaded import Job, LoadedRow
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats.base import format_spec
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import ReleasedStep, StepExample, step_example
from trajmill.stages.training.command import bounded_model

pytestmark = pytest.mark.trainers
MAX_PIXELS = 1_003_520
SIZES = {"wide": Size(1920, 1080), "tall": Size(1080, 2400), "laptop": Size(1366, 768), "small": Size(640, 480)}
"""A 1366x768 picture has another size if it is first fitted into the published bounds, then into narrower ones."""
FORMATS = {"llamafactory": "llamafactory", "verl": "verl-sft", "swift": "swift"}
PUBLISHED = family_named("qwen2.5-vl")


class SizedScreens(StoredScreens):
    def image(self, screen_id: str) -> bytes:
        stream = io.BytesIO()
        Image.new("RGB", SIZES[screen_id], (120, 120, 120)).save(stream, "png")
        return stream.getvalue()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return ()

    def size(self, screen_id: str) -> Size:
        return SIZES[screen_id]


def exported(kind: str, family: Family, folder: Path) -> Path:
    screens = SizedScreens()
    names = [*SIZES, "small"]
    actions = [TAP.model_copy(update={"x": 300, "y": 200})] * (len(SIZES) - 1) + [DONE]
    steps = [
        step(at, action, (names[at], names[at + 1]), platform=Platform.DESKTOP).model_copy(update={"raw_response": ""})
        for at, action in enumerate(actions)
    ]
    walk = episode(steps, asked=query("q", Platform.DESKTOP))
    made = [step_example(family, walk, ReleasedStep(f"e{at}", "t", at, 1.0), screens) for at in range(len(actions))]
    assert all(isinstance(each, StepExample) for each in made)
    folder.mkdir()
    write_folder(folder, format_spec(kind), family, SOURCE, ReleaseSteps(made), screens)
    return folder


@pytest.mark.parametrize("trainer", FORMATS)
def test_a_trainer_sees_the_pictures_that_the_targets_were_written_for(
    trainer: str, trainer_process: Processes, tmp_path: Path
) -> None:
    from tests.trainers.tiny_processor import build_tiny_processor  # transformers takes seconds to import

    family = PUBLISHED.within(MAX_PIXELS)
    template = (packages_of("trl") / TEMPLATES / "qwen2_5_vl.jinja").read_text(encoding="utf-8")
    model = build_tiny_processor(tmp_path / "model", PUBLISHED, template, ["Order it. Thought: tap. Action: click"])
    # What the recipe `command` gives a trainer: a view of the model, and the bounds as variables.
    view = bounded_model(model, family.budget, tmp_path / "view")
    bounds = {"MIN_PIXELS": str(family.budget.min_pixels), "MAX_PIXELS": str(family.budget.max_pixels)}
    release, kind = exported(FORMATS[trainer], family, tmp_path / "release"), FORMATS[trainer]
    most = json.loads((release / "export.json").read_text())["max_length"]
    job = Job(kind, str(release), str(view), work=str(tmp_path / "work"), max_length=most, replies=())
    (told,) = trainer_process(trainer).ask(f"load_{trainer}", tmp_path, bounds, jobs=[job._asdict()])
    rows = [LoadedRow(*row) for row in (told["rows"] if isinstance(told, dict) else told)]
    grids = [row.grids for row in rows]
    seen = [Size(wide * 14, high * 14) for ((_, high, wide),) in grids]
    assert seen == [family.budget.fit(size) for size in SIZES.values()]
    assert (seen[0], seen[1]) == (Size(1316, 728), Size(672, 1484))
