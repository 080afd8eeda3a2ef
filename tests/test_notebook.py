import re
from pathlib import Path

import pytest

import trajmill

_PAGE = Path(__file__).parents[1] / "docs" / "notebook.md"


@pytest.mark.slow
def test_all_cells_run(capsys: pytest.CaptureFixture[str]) -> None:
    cells = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(cells) == 10
    names: dict[str, object] = {}
    for number, cell in enumerate(cells, start=1):
        exec(compile(cell, f"cell {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert "reward 1.0" in printed
    assert "alone: False guided: True" in printed
    assert " examples, dropped: [" in printed
    assert "[{'trajectories': 0}]" in printed


@pytest.mark.slow
def test_every_public_name_is_there() -> None:
    assert {name: getattr(trajmill, name) for name in trajmill.__all__}
    assert dir(trajmill) == sorted(trajmill.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rollout_everything'"):
        getattr(trajmill, "rollout_everything")  # noqa: B009
