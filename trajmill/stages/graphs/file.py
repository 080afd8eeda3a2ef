"""Reads and writes app graphs as YAML files that people read, edit and review; mistakes have line numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.stages.environments.simulated.app_files.loader import (
    Mistake,
    WritersGuide,
    YamlFile,
    read_yaml,
    record_keys,
    record_mistakes,
)
from trajmill.stages.graphs import base
from trajmill.stages.graphs.base import OUTSIDE, AppGraph
from trajmill.stages.graphs.operations import staying

_NO_GRAPH = "this is no app graph; start it with `app: NAME`"
_GUIDE = "docs/graphs.md"
_WIDTH = 120


class GraphFile(NamedTuple):
    source: YamlFile
    graph: AppGraph


def read_graph(path: Path) -> AppGraph:
    return read_graph_file(path).graph


def read_graph_file(path: Path) -> GraphFile:
    """Read a graph. Raises BadInputError if the file is no graph; the message has one line for each mistake."""
    found = parse_graph(path)
    if not isinstance(found, GraphFile):
        raise BadInputError("\n".join(map(str, found)))
    return found


def parse_graph(path: Path) -> GraphFile | list[Mistake]:
    """Read a graph with the lines of its parts, or all mistakes of the file."""
    source = read_yaml(path, _NO_GRAPH)
    if isinstance(source, Mistake):
        return [source]
    try:
        graph = AppGraph.model_validate(source.data)
    except ValidationError as error:
        guide = WritersGuide(_GUIDE, record_keys(base))
        return record_mistakes(source, error.errors(), guide)
    file = GraphFile(source, graph)
    return list(_broken_names(file)) or file


def write_graph(graph: AppGraph, path: Path) -> None:
    """Write a graph; keys with their default value are left out, short entries take one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(graph_text(graph), encoding="utf-8")
    temporary.replace(path)


def graph_text(graph: AppGraph) -> str:
    data = _styled(graph.model_dump(mode="json", exclude_defaults=True))
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _broken_names(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    if graph.start not in graph.pages:
        yield source.mistake(("start",), f"there is no page `{graph.start}`; {instead_of(graph.start, graph.pages)}")
    for name, page in graph.pages.items():
        if name == OUTSIDE:
            yield source.mistake(
                ("pages", name), f"`{OUTSIDE}` stands for all that is not the app; choose another name"
            )
        for slot in sorted(page.slots.keys() & page.elements.keys()):
            text = f"`{slot}` is the name of an element and of a slot; rename one of them"
            yield source.mistake(("pages", name, "slots", slot), text)
        for index, transition in enumerate(page.transitions):
            path, operated = ("pages", name, "transitions", index), (*page.elements, *page.slots)
            yield from _unknown(file, (*path, "to"), [transition.to], (*graph.pages, OUTSIDE), "page `{}`")
            yield from _unknown(file, (*path, "slots"), transition.slots, page.slots, "slot `{}` on this page")
            if transition.by:
                yield from _unknown(file, (*path, "by"), [transition.by], operated, "element or slot `{}` on this page")
            elif transition.operation != "key":
                yield source.mistake(path, "it does not say what is pressed; add `by: ELEMENT`")
            if (transition.operation == "key") != bool(transition.keys):
                yield source.mistake(path, "`operation: key` and `keys` belong together, e.g. `keys: enter`")
            what = "switch, field or staying transition `{}`"
            yield from _unknown(file, (*path, "after"), transition.after, staying(page, name), what)


def _unknown(
    file: GraphFile, path: tuple[str | int, ...], names: Iterable[str], known: Iterable[str], what: str
) -> Iterator[Mistake]:
    all_known = list(known)
    for name in names:
        if name not in all_known:
            yield file.source.mistake(path, f"there is no {what.format(name)}; {instead_of(name, all_known)}")


class _OnOneLine(dict[str, Any]):
    """A mapping that is written as `{key: value, ...}`."""


class _ListOnOneLine(list[Any]):
    """A list that is written as `[value, ...]`."""


class _Dumper(yaml.SafeDumper):
    """Indents lists, and writes some values on one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    _OnOneLine, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True)
)
_Dumper.add_representer(
    _ListOnOneLine, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)


def _styled(value: Any, depth: int = 0) -> Any:
    """A value in which what fits is written on one line: small mappings and lists, pages excepted."""
    if isinstance(value, dict):
        styled = {key: _styled(each, depth + 1) for key, each in value.items()}
        plain = all(
            _is_plain(each) or (isinstance(each, list) and all(map(_is_plain, each))) for each in value.values()
        )
        return _OnOneLine(styled) if depth > 2 and plain and len(str(value)) < _WIDTH else styled
    if isinstance(value, list):
        items = [_styled(each, depth + 1) for each in value]
        return _ListOnOneLine(items) if all(_is_plain(each) for each in value) else items
    return value


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)
