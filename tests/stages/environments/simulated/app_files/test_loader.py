from pathlib import Path

from trajmill.stages.environments.simulated.app_files.loader import Mistake, YamlFile, parse_yaml, read_yaml


def read(text: str) -> YamlFile:
    source = parse_yaml("a.yaml", text)
    assert isinstance(source, YamlFile), source
    return source


def test_only_plain_whole_numbers_and_true_and_false_are_not_text() -> None:
    text = "{a: 7, b: -3, c: 07, d: 7:30, e: 9.50, f: yes, g: on, h: true, i: 'true', j: 0, k: 2026-11-20}"
    expected = {"a": 7, "b": -3, "c": "07", "d": "7:30", "e": "9.50", "f": "yes", "g": "on", "h": True, "i": "true"}
    assert read(text).data == {**expected, "j": 0, "k": "2026-11-20"}


def test_values_know_their_line() -> None:
    source = read("a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n")
    assert source.line(("b", 1, "d")) == 5
    assert source.line(("b", 1, "c")) == 4
    assert source.line(("b", 1, "missing", "deeper")) == 4
    assert source.line(()) == 1


def test_mistakes_of_form_name_their_line() -> None:
    def line(text: str) -> int:
        mistake = parse_yaml("a.yaml", text)
        assert isinstance(mistake, Mistake), text
        return mistake.line

    assert line("a: 1\nb: [1, 2\nc: 3\n") in (2, 3)
    assert line("a: 1\nb: 2\na: 3\n") == 3
    assert line("a: &x [1]\nb: *x\n") in (1, 2)
    assert line("a: 1\nb: !!python/object:os.system x\n") == 2
    assert line("- a\n") == 1
    assert line("") == 1
    assert line("a: 1\nb: " + "[" * 200_000) == 2
    assert line("a: 1\nb: " + "1" * 5000) == 2


def test_a_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    assert isinstance(read_yaml(tmp_path / "none.yaml"), Mistake)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\xfe")
    assert isinstance(read_yaml(tmp_path / "latin.yaml"), Mistake)
    assert isinstance(read_yaml(tmp_path), Mistake)
