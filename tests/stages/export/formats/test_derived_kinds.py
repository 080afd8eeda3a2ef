import io
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from tests.stages.export.derived_rows import DerivedRow, SeenScreens, derived_rows, walks
from tests.stages.export.formats.folders import SOURCE, ReadRow, read
from trajmill.schemas.actions import Terminate, action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import FAMILIES, Family, family_named
from trajmill.schemas.tables.example import Message
from trajmill.stages.derive.spec import DERIVE_KINDS
from trajmill.stages.export.formats.base import FORMATS, format_spec
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import LeftOutStep, StepExample, same_action
from trajmill.stages.export.rewards import ReplyTarget

pytestmark = pytest.mark.slow
ACTION_KINDS = {"step", "grounding", "grounding_rl", "action_semantics", "reasoning", "rft", "forks"}
"""Kinds with rows whose reply is an action, which a format for RL can compare."""


class Made(NamedTuple):
    rows: list[DerivedRow]
    screens: SeenScreens


@pytest.fixture(scope="module")
def made() -> Made:
    screens = SeenScreens()
    rows = derived_rows(walks(screens, each=1), screens, each=1)
    assert {row.example.kind for row in rows} == set(DERIVE_KINDS.kinds())
    return Made(rows, screens)


def written(form: str, family: Family, made: Made, folder: Path) -> list[tuple[DerivedRow, ReadRow]]:
    folder.mkdir()
    opened = format_spec(form)
    found = [kind_example(family, row.episode, row.example, 1.0, made.screens) for row in made.rows]
    taken = [
        (row, example)
        for row, example in zip(made.rows, found, strict=True)
        if isinstance(example, StepExample)
        and (example.target is not None or not opened.rl_columns)
        and (example.rejected or form != "dpo")
    ]
    write_folder(folder, opened, family, SOURCE, ReleaseSteps([example for _, example in taken]), made.screens)
    return list(zip((row for row, _ in taken), read(folder), strict=True))


@pytest.mark.parametrize(
    ("kind", "author", "said"),
    [
        ("reasoning", "vlm-1", "of 0% were filled into templates by the built-in policy or a rule, those of 100%"),
        ("step", "template", "The words of 100% were filled into templates"),
        ("step", "import.aitz", "those of 100% came with an import"),
        ("action_semantics", "embedded-3", "50% are calls without words"),
    ],
)
def test_the_card_says_which_words_are_templates(kind: str, author: str, said: str, made: Made, tmp_path: Path) -> None:
    by = {"written_by": author}
    rows = [row._replace(example=row.example.model_copy(update=by)) for row in made.rows if row.example.kind == kind]
    written("trl", family_named("qwen3-vl"), made._replace(rows=rows), tmp_path / "out")
    assert said in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("form", "name"), [*((form, "gui-owl") for form in FORMATS.kinds()), *(("trl", name) for name in FAMILIES)]
)
def test_a_format_takes_all_kinds_and_each_reply_is_read_back(form: str, name: str, made: Made, tmp_path: Path) -> None:
    family = family_named(name)
    rows = written(form, family, made, tmp_path / "out")
    taken = {row.example.kind for row, _ in rows}
    usable = ACTION_KINDS if format_spec(form).rl_columns else set(DERIVE_KINDS.kinds())
    assert taken == ({"forks"} if form == "dpo" else usable)
    for (episode, example), row in rows:
        assert row.images == tuple(map(made.screens.image, row.columns["screen_ids"]))
        assert "".join(text for _, text in row.messages).count("<image>") == len(row.images)
        for image in set(row.images):
            with Image.open(io.BytesIO(image)) as opened:
                opened.load()
        if example.action is None:
            assert row.reply == example.messages[-1].content
            continue
        action = action_from_json(example.action)
        frame = family.frame(made.screens.size(example.screens[-1]))
        if row.reply is None:
            text = row.columns["target"] if form == "grpo" else row.columns["reward_model"]["ground_truth"]
            assert ReplyTarget.model_validate_json(text).action == action
            continue
        said = family.dialect(episode.query.platform).parse(row.reply, frame)
        assert isinstance(said, Reply) and same_action(said.action, action, frame)
        if form == "dpo":
            worse = family.dialect(episode.query.platform).parse(row.columns["worse"]["content"], frame)
            assert isinstance(worse, Reply) and worse.action == Terminate(status="failure")
        if example.kind in {"grounding", "action_semantics"}:
            # The call alone, not a call between empty words.
            assert "Thought:" not in row.reply and not row.reply.startswith("Action: \n")


def test_a_thought_that_was_written_anew_is_exported_with_a_press(made: Made) -> None:
    row = next(row for row in made.rows if row.example.kind == "reasoning" and '"click"' in (row.example.action or ""))
    *asked, reply = row.example.messages
    said = reply.content.replace("Thought: ", "Thought: I think anew. ", 1)
    anew = row.example.model_copy(update={"messages": (*asked, reply.model_copy(update={"content": said}))})
    example = kind_example(family_named("gui-owl"), row.episode, anew, 1.0, made.screens)
    assert isinstance(example, StepExample) and "Thought: I think anew. " in example.messages[-1].content


def test_the_action_of_a_role_is_a_row_of_its_own_family_alone(made: Made) -> None:
    row = next(row for row in made.rows if row.example.kind == "step" and row.example.action)
    owl, action = family_named("gui-owl"), action_from_json(row.example.action or "")
    platform, frame = row.episode.query.platform, owl.frame(made.screens.size(row.example.screens[-1]))
    reply = Message(role="assistant", content=owl.dialect(platform).render(Reply("So.", action, "Done."), frame))
    said = {"kind": "roles", "variant": "worker", "action": None, "messages": (*row.example.messages[:-1], reply)}
    worker = row.example.model_copy(update=said)
    assert isinstance(kind_example(owl, row.episode, worker, 1.0, made.screens), StepExample)
    for name in ("gui-owl-1.5", "qwen2.5-vl", "gui-r1"):
        assert kind_example(family_named(name), row.episode, worker, 1.0, made.screens) == LeftOutStep("other_family")


def test_a_role_is_told_past_actions_in_the_words_of_its_family(made: Made) -> None:
    row = next(row for row in made.rows if row.example.kind == "forks" and row.example.step_index)
    old, family, steps = '{"kind":"click","x":1,"y":2}', family_named("qwen3-vl"), row.episode.steps
    told = f"Go.\n\n### Last Action ###\n{old}\n\n### Steps So Far ###\n1. Plan: Open. Action: {old}<image>"
    said = (Message(role="user", content=told), Message(role="assistant", content="### Outcome ###\nSUCCESS"))
    role = row.example.model_copy(update={"kind": "coda", "action": None, "messages": said})
    shown = kind_example(family, row.episode, role, 1.0, made.screens)
    assert isinstance(shown, StepExample)
    lines, frame = shown.messages[0].content.splitlines(), family.frame(made.screens.size(row.example.screens[0]))
    for line, step in (lines[3], steps[(row.example.step_index or 0) - 1]), (lines[6], steps[0]):
        read = family.dialect(row.episode.query.platform).parse(line, frame)
        assert isinstance(read, Reply) and same_action(read.action, action_from_json(step.action or ""), frame)
