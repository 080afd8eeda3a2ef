import re
import sys
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.prompts import load_prompt

SOUND = "# system\n\nYou judge. It costs $$5.\n\n# user\n\nTask: $task\n\n# Screen\n\n${screen}s\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "judge.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_fields_are_filled_in_once_and_the_version_changes_with_the_text(package: str, tmp_path: Path) -> None:
    prompt = load_prompt(package, "judge-1", written(tmp_path, SOUND))
    _, system, user = prompt.fill(task="$screen $x $", screen="tab")
    assert system == "You judge. It costs $5."
    assert user == "Task: $screen $x $\n\n# Screen\n\ntabs"
    again, other = (load_prompt(package, "judge-1", written(tmp_path, SOUND + more)).version for more in ("", "!"))
    assert re.fullmatch(r"judge-[0-9a-f]{8}", prompt.version) and prompt.version == again != other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# user\n$task $screen\n", "judge.md: no section '# system'"),
        ("# system\n$task $screen\n", "judge.md: no section '# user'"),
        ("# system\na\n# user\n$task $screen\n# user\nb", "judge.md: more than one section '# user'"),
        ("Hello\n# system\n# user\n$task $screen", "judge.md:1: text before the first section"),
        ("# system\n# user\n$task", "judge.md: field $screen is missing"),
        ("# system\n# user\n$task $screen\n$goal", "judge.md:4: unknown field $goal; it may use: $screen, $task"),
        ("# system\n# user\n$task $screen for $ 5", "judge.md:3: a '$' that begins no field"),
    ],
)
def test_a_wrong_file_gives_one_error_line_that_names_it(package: str, tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(told)) as error:
        load_prompt(package, "judge-1", written(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_gives_one_error_line(package: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"none\.md: prompt file cannot be read"):
        load_prompt(package, "judge-1", tmp_path / "none.md")
    (tmp_path / "judge.md").write_bytes(b"# system\n\xff")
    with pytest.raises(BadInputError, match="not UTF-8"):
        load_prompt(package, "judge-1", tmp_path / "judge.md")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "little_package" / "prompts"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "judge-1.md").write_text(SOUND, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "little_package", raising=False)
    return "little_package"


def test_a_packaged_prompt_is_found_by_name_and_an_unknown_one_answered_with_the_known(package: str) -> None:
    prompt = load_prompt(package, "judge-1")
    assert prompt.version == "judge-1"
    assert prompt.fill(task="a", screen="b").user.startswith("Task: a")
    with pytest.raises(BadInputError, match="it has: judge-1"):
        load_prompt(package, "judge-2")
