"""Walks in the simulator, exported in every format for two families, and rows of every derived kind for one of them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from tests.stages.export.derived_rows import DerivedRow, SeenScreens, derived_rows, walks
from tests.trainers.loaded import Job
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.episode import Episode
from trajmill.stages.export.formats.base import format_spec
from trajmill.stages.export.formats.card import ExportedRelease
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.folder import ReleaseSteps, repeat_by_weight, write_folder
from trajmill.stages.export.formats.steps import ReleasedStep, StepExample, step_example
from trajmill.stages.training.command import bounded_model

FAMILIES: Final = (family_named("qwen2.5-vl").within(639_040), family_named("gui-owl-1.5"))
"""One that is a Qwen2.5-VL and is shown one screen, one that is a Qwen3-VL and is shown up to five.

The first has narrower bounds of pixels than published ones: screens that are first fitted into those have other sizes.
"""
WEIGHTS: Final = (1.0, 2.0, 0.0, 0.25)
"""Of the first steps of each walk; all others weigh 1."""
_STEPS: Final[Mapping[str, Sequence[int]]] = {"qwen2.5-vl": range(4), "gui-owl-1.5": (1, 3, 4)}
"""Steps of each walk by family: each weight, and a last prompt with all past screens that the family is shown."""
_OF_THE_FIRST: Final = ("grounding", "action_semantics", "planning", "roles")
"""Derived kinds that the first family has rows of; the second has those of the others, and both have forks."""
_TEMPLATES: Final[Mapping[str, str]] = {"qwen2.5-vl": "qwen2_5_vl.jinja", "gui-owl-1.5": "qwen3_vl.jinja"}
_SOURCE: Final = ExportedRelease("run-r0001", "run", 1, "test", "apache-2.0")


class Exported(NamedTuple):
    job: Job
    family: Family
    examples: Sequence[StepExample]

    @property
    def bounds(self) -> dict[str, str]:
        return {"MIN_PIXELS": str(self.family.budget.min_pixels), "MAX_PIXELS": str(self.family.budget.max_pixels)}


class Made(NamedTuple):
    screens: SeenScreens
    walks: list[Episode]
    derived: list[DerivedRow]


@cache
def _made() -> Made:
    screens = SeenScreens()
    walked = walks(screens, each=1)
    return Made(screens, walked, derived_rows(walked, screens, each=1))


@cache
def _examples(family: Family) -> list[StepExample]:
    screens, walked, derived = _made()
    steps, found = list(product(walked, _STEPS[family.name])), []
    for walk, index in steps:
        weight = WEIGHTS[index] if index < len(WEIGHTS) else 1.0
        name = f"{walk.query.query_id}-{index}"
        found.append(
            step_example(family, walk, ReleasedStep(name, walk.trajectory.trajectory_id, index, weight), screens)
        )
    examples = [example for example in found if isinstance(example, StepExample)]
    assert len(examples) == len(steps)
    # Each kind in one family: a row takes a trainer a quarter of a second.
    first = family == FAMILIES[0]
    kept = [row for row in derived if (row.example.kind in _OF_THE_FIRST) == first or row.example.kind == "forks"]
    of_kinds = [kind_example(family, row.episode, row.example, 1.0, screens) for row in kept]
    return examples + [example for example in of_kinds if isinstance(example, StepExample)]


def exports(folder: Path, formats: Sequence[str], chat_templates: Path) -> list[Exported]:
    from tests.trainers.tiny_processor import build_tiny_processor  # transformers takes seconds to import

    screens, made = _made().screens, []
    for family in FAMILIES:
        examples = _examples(family)
        texts = [message.content for example in examples for message in example.messages]
        template = (chat_templates / _TEMPLATES[family.name]).read_text(encoding="utf-8")
        published = build_tiny_processor(folder / family.name, family_named(family.name), template, texts)
        # What the recipe `command` gives a trainer: a view of the model, and the bounds as variables.
        processor = bounded_model(published, family.budget, folder / f"{family.name}-view")
        for kind in formats:
            path = folder / f"{kind}-{family.name}"
            path.mkdir()
            form = format_spec(kind)
            given = [example for example in examples if form.unusable(example) is None]
            write_folder(path, form, family, _SOURCE, ReleaseSteps(given), screens)
            weighty = [example for example in given if example.loss_weight]
            rows = list(repeat_by_weight(weighty)) if form.weights_as_rows else weighty
            figures = json.loads((path / "export.json").read_text())
            job = Job(
                format=kind,
                folder=str(path),
                processor=str(processor),
                work=str(folder / f"work-{kind}-{family.name}"),
                max_length=figures["max_length"],
                replies=tuple(row.messages[-1].content for row in rows),
            )
            made.append(Exported(job, family, rows))
    return made
