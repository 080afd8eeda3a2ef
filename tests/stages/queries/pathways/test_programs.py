"""The file of programs to walk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.desktop.task import parse_task
from trajmill.stages.queries.pathways.programs import packaged_programs, read_programs


def test_the_packaged_programs_have_start_states_that_a_desktop_understands() -> None:
    programs = read_programs(packaged_programs())
    assert {"mousepad", "galculator", "pcmanfm", "libreoffice-writer", "libreoffice-calc"} == {p.name for p in programs}
    for program in programs:
        parse_task({"id": program.name, "instruction": "", **json.loads(program.start_state)}, program.name)
        assert bool(program.selecting) == bool(program.selection)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- name: x\n  title: the x\n", "start_state: Field required"),
        ("- name: x\n  title: the x\n  start_state: {}\n  colour: red\n", "colour: Extra inputs"),
        ("- name: [\n", "no list of programs"),
        ("3\n", "no list of programs"),
    ],
)
def test_a_wrong_file_gives_one_error_line_that_names_it(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "programs.yaml"
    file.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_programs(file)
    assert said in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_program_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BadInputError, match="no program 'gimp'; there are mousepad"):
        read_programs(packaged_programs(), ("gimp",))
