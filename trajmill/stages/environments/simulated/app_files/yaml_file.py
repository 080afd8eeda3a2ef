"""Reads YAML and keeps the line number of every value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

NodePath = tuple[str | int, ...]
"""Keys and indices from the top of a file to one of its values."""

_MOST_DEPTH = 50
_MOST_DIGITS = 15
_NO_APP_FILE = "this is no app file; start it with `app: NAME` or `errand: NAME`"


class Mistake(NamedTuple):
    """One mistake in a YAML file of the user."""

    file: str
    line: int
    text: str
    """What is wrong, and what to do."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class YamlFile(NamedTuple):
    """One parsed file."""

    file: str
    data: Any
    lines: dict[NodePath, int]

    def line(self, path: Sequence[str | int]) -> int:
        """The line of a value, or of the nearest enclosing value in the file."""
        at = tuple(path)
        while at not in self.lines:
            at = at[:-1]
        return self.lines[at]

    def mistake(self, path: Sequence[str | int], text: str) -> Mistake:
        """A mistake at a value."""
        return Mistake(self.file, self.line(path), text)


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Reads only text, whole numbers, true and false; 7:30, 9.50, yes and no are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), list("-0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""])


def parse_yaml(file: str, text: str, no_mapping: str = _NO_APP_FILE) -> YamlFile | Mistake:
    """Parse YAML text; the first syntax error is returned as a mistake.

    Args:
        file: name of the file in mistakes.
        text: the text.
        no_mapping: the mistake if the text has no keys.
    """
    try:
        _refuse_deep_nesting(text)
        node = yaml.compose(text, Loader=_Loader)
        if not isinstance(node, yaml.MappingNode):
            return Mistake(file, 1, no_mapping)
        lines: dict[NodePath, int] = {}
        data = _value(node, (), lines, set())
        return YamlFile(file, data, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return Mistake(file, mark.line + 1 if mark else 1, f"{error.problem or 'not YAML'}; correct the YAML")
    except yaml.YAMLError as error:
        return Mistake(file, 1, f"{' '.join(str(error).split())}; correct the YAML")


def _refuse_deep_nesting(text: str) -> None:
    """The parser's own recursion would end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=f"nested more than {_MOST_DEPTH} deep", problem_mark=mark)


def read_yaml(path: Path, no_mapping: str = _NO_APP_FILE) -> YamlFile | Mistake:
    """Read a YAML file; if it cannot be read or parsed, a mistake is returned. Arguments as for `parse_yaml`."""
    try:
        return parse_yaml(str(path), path.read_text(encoding="utf-8"), no_mapping)
    except UnicodeDecodeError:
        return Mistake(str(path), 1, "the file is not UTF-8 text; save it as UTF-8")
    except OSError as error:
        return Mistake(str(path), 1, f"{error.strerror or error}; check the path")


def _value(node: yaml.Node, path: NodePath, lines: dict[NodePath, int], seen: set[int]) -> Any:
    if id(node) in seen:
        raise yaml.MarkedYAMLError(problem="anchors and aliases are not supported", problem_mark=node.start_mark)
    seen.add(id(node))
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, seen)
    if isinstance(node, yaml.SequenceNode):
        return [_value(child, (*path, index), lines, seen) for index, child in enumerate(node.value)]
    return _scalar(node)


def _mapping(node: yaml.MappingNode, path: NodePath, lines: dict[NodePath, int], seen: set[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, child in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key must be a plain word", problem_mark=key.start_mark)
        if key.value in found:
            raise yaml.MarkedYAMLError(problem=f"the key `{key.value}` stands twice", problem_mark=key.start_mark)
        found[key.value] = _value(child, (*path, key.value), lines, seen)
        lines[*path, key.value] = key.start_mark.line + 1
    return found


def _scalar(node: yaml.Node) -> str | int | bool | None:
    match node.tag.rpartition(":")[2]:
        case "bool":
            return bool(node.value == "true")
        case "int":
            return _whole_number(node)
        case "null":
            return None
        case "str":
            return str(node.value)
        case other:
            raise yaml.MarkedYAMLError(problem=f"the tag `{other}` is not supported", problem_mark=node.start_mark)


def _whole_number(node: yaml.Node) -> int:
    if len(node.value) > _MOST_DIGITS:
        raise yaml.MarkedYAMLError(problem="the number is too large", problem_mark=node.start_mark)
    return int(node.value)
