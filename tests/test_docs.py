import ast
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import typer
import yaml

import trajmill
from trajmill.flows.cli.app import app
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import key_paths
from trajmill.stages.derive.spec import DERIVE_KINDS

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")))
NOT_RUN: Final = ("trajmill COMMAND --help",)
"""Command lines that stand for others."""
BY_NAME: Final = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@cache
def blocks(page: Path) -> tuple[tuple[str, str], ...]:
    """The language and the text of each fenced code block."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.M | re.S)
    return tuple((language, re.sub(rf"^{indent}", "", inside, flags=re.M)) for indent, language, inside in found)


def prose(page: Path) -> str:
    return re.sub(r"^( *)```\w*\n.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(map(slug, re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)))


def slug(heading: str) -> str:
    """The anchor that both mkdocs and GitHub give a heading."""
    shown = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading)
    kept = re.sub(r"[^\w\s-]", "", shown).strip().lower()
    by_mkdocs, by_github = re.sub(r"[-\s]+", "-", kept), kept.replace(" ", "-")
    assert by_mkdocs == by_github, f"two spellings of the anchor of {heading!r}"
    return by_mkdocs


@BY_NAME
def test_links_and_anchors_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"https?:", path):
            continue
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target
        assert page.parent != DOCS or DOCS in linked.parents or linked == page, f"{target} is not on the site"


def test_pages_that_the_code_names_exist() -> None:
    for file in [*(ROOT / "trajmill").rglob("*.py"), *(ROOT / "trajmill").rglob("*.html"), ROOT / "Makefile"]:
        for name in re.findall(r"\bdocs/[\w/.-]+\.(?:md|toml|yaml)\b", file.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{file}: {name}"


@BY_NAME
def test_targets_modules_files_and_classes_that_a_page_names_exist(page: Path) -> None:
    text, targets = page.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for module in re.findall(r"python -m ((?:benchmarks|tests|trajmill)[\w.]*)", text):
        assert (ROOT / module.replace(".", "/")).exists() or (ROOT / f"{module.replace('.', '/')}.py").exists(), module
    for path in re.findall(r"\bdocs/examples/[\w/.-]*\w", text):
        assert (ROOT / path).exists(), path

    text = prose(page)
    for path in re.findall(r"`((?:trajmill|schemas|warehouse|stages|pipelines|flows|executors|tests)/[\w/.-]+)`", text):
        homes = (ROOT, ROOT / "trajmill", ROOT / "trajmill/pipelines")
        assert any((home / path).exists() for home in homes), path
    if page.name == "extending.md":
        for name in re.findall(r"`([A-Z][a-z]\w+[A-Z]\w+)`", text):
            assert re.search(rf"^class {name}\b", python_text(), re.MULTILINE), name


@cache
def python_text() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "trajmill").rglob("*.py")))


def command_lines(page: Path) -> Iterator[str]:
    for language, block in blocks(page):
        if language in ("", "bash", "console", "sh"):
            script = re.sub(r"<<'(\w+)'\n.*?^\1$", "", block, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
            for line in script.splitlines():
                if found := re.match(r"(?:\$ )?(?:\w+=\S+ )*(trajmill .+)", line.strip()):
                    yield found[1]


COMMAND: Final[Any] = typer.main.get_command(app)


def parse(line: str) -> None:
    """Parse a shell line's commands of trajmill with the real parser."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("|&;<>"):
            commands.append([])
        else:
            commands[-1].append(word)
    for name, *given in (each for each in commands if each[:1] == ["trajmill"]):
        parser = COMMAND
        while hasattr(parser, "commands"):
            assert given and given[0] in parser.commands, given
            parser, name, given = parser.commands[given[0]], given[0], given[1:]
        parser.make_context(name, given)


LINES: Final = sorted({line for page in PAGES for line in command_lines(page)} - {*NOT_RUN})


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_parses(line: str) -> None:
    parse(line)


def test_there_are_commands_and_a_wrong_one_would_be_found() -> None:
    assert len(LINES) > 80
    assert COMMAND.commands["derive"].params[0].help == ", ".join(DERIVE_KINDS.built_in)
    with pytest.raises(Exception, match="No such option: --confg"):
        parse("trajmill evolve --confg x.toml")


@BY_NAME
def test_commands_in_a_sentence_exist(page: Path) -> None:
    for line in re.findall(r"`(trajmill [a-z][^`]*)`", prose(page)):
        parser, words = COMMAND, line.split()[1:]
        while words and hasattr(parser, "commands") and re.fullmatch(r"[a-z]+", words[0]):
            assert words[0] in parser.commands, line
            parser, words = parser.commands[words[0]], words[1:]
        known = {name for param in parser.params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@BY_NAME
def test_blocks_are_of_their_language(page: Path) -> None:
    for language, block in blocks(page):
        match language:
            case "json":
                json.loads(block)
            case "yaml":
                yaml.safe_load(block)
            case "python":
                imported(ast.parse(block))


def imported(tree: ast.Module) -> None:
    """Check that what a block imports from trajmill is there, without importing what trainers need."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trajmill"):
            home = ROOT / (node.module or "").replace(".", "/")
            source = (home / "__init__.pyi" if home.is_dir() else home.with_suffix(".py")).read_text(encoding="utf-8")
            for name in node.names:
                assert re.search(rf"\b{name.name}\b", source), (node.module, name.name)


@cache
def names_with_dots() -> frozenset[str]:
    """All keys of the configuration, and all columns of tables and views."""
    columns = re.findall(r"^#+ `(\w+)`\n(.+?)(?=^#|\Z)", (DOCS / "tables.md").read_text(encoding="utf-8"), re.M | re.S)
    shared = ("run_id", "round", "made_by", "code_version", "schema_version", "written_at")
    keys = {".".join(path) for path in key_paths(Config)}
    tables = {f"{table}.{column}" for table, body in columns for column in re.findall(r"^\| `(\w+)`", body, re.M)}
    return frozenset(keys | tables | {f"{table}.{column}" for table, _ in columns for column in shared})


@BY_NAME
def test_keys_in_a_sentence_exist(page: Path) -> None:
    first = {name.partition(".")[0] for name in names_with_dots()}
    tables = {path[:at] for path in key_paths(Config) for at in range(1, len(path))}
    known = names_with_dots() | set(map(".".join, tables))
    for name in re.findall(r"`((?:\w+\.)+\w+)(?: = [^`]+)?`", prose(page)):
        is_file = name.endswith((".py", ".md", ".json", ".jsonl", ".parquet"))
        if name.partition(".")[0] in first and not is_file and page.name != "metrics.md":
            assert name in known or f"endpoints.NAME.{name}" in known, name
    for name in re.findall(r"`\[([a-z][\w.]*)\]`", prose(page)):
        by_name = name.startswith(("derive.kinds.", "sources.", "judge.critics."))
        assert name in known or by_name or name in ("optional", "project"), name


def test_navigation_names_every_page_once() -> None:
    parts = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = [page for part in parts for pages in part.values() for page in pages]
    assert len(parts) == 5
    assert sorted(named) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_what_its_reader_can_do(page: Path) -> None:
    title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
    assert re.fullmatch(r"# .+", title)
    assert re.search(r"(After reading|From) this page you (can|know)", rest.partition("\n\n")[0]), rest[:200]


def test_the_glossary_is_short() -> None:
    rows = re.findall(r"^\| (?!term|-)(.+?) \|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(set(rows)) <= 30


@pytest.mark.slow
def test_generated_pages_are_current() -> None:
    for name, text in runpy.run_path(str(DOCS / "reference.py"))["pages"]().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run `make reference`"


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs the extra `docs`")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    assert (tmp_path / "configuration.html").exists()


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
