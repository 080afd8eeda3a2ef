from pathlib import Path
from typing import Annotated

from trajmill.schemas.spec import OPERATIONAL, Spec, content_of


class Inner(Spec):
    votes: int = 1
    workers: Annotated[int, OPERATIONAL] = 1


class Outer(Spec):
    inner: Inner = Inner()
    file: Path | None = None
    folder: Path | None = None
    by_name: dict[str, Inner] = {}
    url: Annotated[str, OPERATIONAL] = ""


def test_operational_fields_are_not_part_of_the_identity() -> None:
    moved = Outer(inner=Inner(workers=8), url="http://other", by_name={"a": Inner(workers=3)})
    assert moved.identity() == Outer(by_name={"a": Inner()}).identity()
    assert Outer(inner=Inner(votes=2)).identity() != Outer().identity()
    assert Outer(by_name={"a": Inner(votes=2)}).identity() != Outer(by_name={"a": Inner()}).identity()


def test_a_file_counts_by_its_contents(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one.yaml", "same.yaml", "other.yaml"))
    one.write_text("a: 1")
    same.write_text("a: 1")
    other.write_text("a: 2")
    assert Outer(file=one).identity() == Outer(file=same).identity()
    assert Outer(file=one).identity() != Outer(file=other).identity()
    before = Outer(file=one).identity()
    one.write_text("a: 3")
    assert Outer(file=one).identity() != before


def test_a_folder_counts_by_the_names_and_contents_of_its_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "task.json").write_text("{}")
    assert Outer(folder=tmp_path / "a").identity() == Outer(folder=tmp_path / "b").identity()
    (tmp_path / "b" / "deep" / "task.json").rename(tmp_path / "b" / "deep" / "other.json")
    assert Outer(folder=tmp_path / "a").identity() != Outer(folder=tmp_path / "b").identity()


def test_a_large_file_counts_by_its_size_and_by_blocks_of_it(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(65 << 20)
    before = content_of(weights)
    with weights.open("r+b") as file:
        file.seek((65 << 20) - 10)
        file.write(b"tuned")
    tuned = content_of(weights)
    with weights.open("r+b") as file:
        file.truncate(66 << 20)
    assert len({before, tuned, content_of(weights)}) == 3
