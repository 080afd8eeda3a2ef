from __future__ import annotations

from pathlib import Path

import pytest

from flows.config import Config
from flows.config_file import load_config
from flows.judges import own_judge, prompts_of
from flows.models_ready import models_ready
from schemas.errors import BadInputError

TEXT = "# system\n\nYou judge.\n\n# user\n\nThe task: $instruction\n$left_out\n$report\n"
CONFIG = '[prompts]\ncritic_text = "mine.md"\n'


def configured(folder: Path, prompt: str) -> Config:
    (folder / "mine.md").write_text(prompt)
    (folder / "trajmill.toml").write_text(CONFIG)
    return load_config(folder / "trajmill.toml")


def test_a_prompt_of_ones_own_is_used_and_told(tmp_path: Path) -> None:
    config = configured(tmp_path, TEXT)
    assert prompts_of(config).read().text.version.startswith("mine-")
    assert prompts_of(config).read().step == prompts_of(Config()).read().step
    assert config.run_id != Config().run_id
    before = own_judge(config).settings
    changed = configured(tmp_path, TEXT.replace("judge", "decide"))
    assert own_judge(changed).settings != before


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [(TEXT.replace("$report", ""), "report"), (TEXT.replace("# user", "# someone"), "user"), ("", "system")],
)
def test_a_prompt_that_misses_something_is_one_line_before_anything_is_asked(
    tmp_path: Path, prompt: str, reason: str
) -> None:
    config = configured(tmp_path, prompt)
    with pytest.raises(BadInputError) as caught, models_ready(config, tmp_path):
        raise AssertionError("the run began")
    message = str(caught.value)
    assert "mine.md" in message and reason in message and "\n" not in message
