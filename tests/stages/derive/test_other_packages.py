from pathlib import Path

import pytest

from tests.other_package import installed
from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import derived
from trajmill.schemas.errors import BadInputError
from trajmill.stages.derive.spec import DERIVE_KINDS, DeriveSpec

LENGTHS = """
from typing import ClassVar

from trajmill.schemas.tables.example import Message
from trajmill.stages.derive.collected import Collected, Lesson
from trajmill.stages.derive.kind_spec import KindSpec


class Lengths:
    def __init__(self, spec, tools):
        self.spec, self.tools = spec, tools

    async def derive(self, episode, only):
        collected = Collected(self.tools.maker, episode)
        messages = (
            Message(role="user", content=self.spec.question),
            Message(role="assistant", content=str(len(episode.steps))),
        )
        collected.add(Lesson(messages, (), "length", "template"), None)
        return collected.rows()


class LengthsSpec(KindSpec):
    name: ClassVar[str] = "lengths"
    question: str = "How many steps?"

    def open(self, tools):
        return Lengths(self, tools)
"""


def test_a_kind_of_another_package_derives_rows_with_its_settings_and_a_wrong_one_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[trajmill.derive_kinds]\nlengths = length_rows:LengthsSpec"
    installed(tmp_path / "packages", monkeypatch, points, length_rows=LENGTHS)
    assert DERIVE_KINDS.kinds()[-1] == "lengths"
    spec = DeriveSpec(kinds={"lengths": {"question": "How long?"}}).kind("lengths")
    (row,) = derived(spec, episode([step(0, TAP), step(1, DONE)])).examples
    assert (row.kind, [message.content for message in row.messages]) == ("lengths", ["How long?", "2"])
    with pytest.raises(BadInputError, match="no derived data of kind 'length'"):
        DeriveSpec().kind("length")
    with pytest.raises(BadInputError, match="lengths: queston"):
        DeriveSpec(kinds={"lengths": {"queston": "?"}}).kind("lengths")
