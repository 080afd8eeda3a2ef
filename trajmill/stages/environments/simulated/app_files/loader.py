"""Read app and errand files into records; every value and every mistake has its line number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.schemas.names import nearest
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import EFFECT_KINDS, AppSpec, ErrandSpec
from trajmill.stages.parts import plain_mistake

NodePath = tuple[str | int, ...]
"""Keys and indices from the top of a file to one of its values."""

_MOST_DEPTH = 50
_MOST_DIGITS = 15
_NO_APP_FILE = "this is no app file; start it with `app: NAME` or `errand: NAME`"


class Mistake(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class YamlFile(NamedTuple):
    file: str
    data: Any
    lines: dict[NodePath, int]

    def line(self, path: Sequence[str | int]) -> int:
        """Return the line of a value, or of the nearest enclosing value in the file."""
        at = tuple(path)
        while at not in self.lines:
            at = at[:-1]
        return self.lines[at]

    def mistake(self, path: Sequence[str | int], text: str) -> Mistake:
        return Mistake(self.file, self.line(path), text)


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Reads only text, whole numbers, true and false; 7:30, 9.50, yes and no are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), list("-0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""])


def read_yaml(path: Path, no_mapping: str = _NO_APP_FILE) -> YamlFile | Mistake:
    try:
        return parse_yaml(str(path), path.read_text(encoding="utf-8"), no_mapping)
    except UnicodeDecodeError:
        return Mistake(str(path), 1, "the file is not UTF-8 text; save it as UTF-8")
    except OSError as error:
        return Mistake(str(path), 1, f"{error.strerror or error}; check the path")


def parse_yaml(file: str, text: str, no_mapping: str = _NO_APP_FILE) -> YamlFile | Mistake:
    """Parse YAML; the first syntax error gives a mistake, and `no_mapping` is the mistake of a text without keys."""
    try:
        depth = 0
        # Deep nesting would overflow the stack of the parser and end the process.
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(problem=f"nested more than {_MOST_DEPTH} deep", problem_mark=mark)
        node = yaml.compose(text, Loader=_Loader)
        if not isinstance(node, yaml.MappingNode):
            return Mistake(file, 1, no_mapping)
        lines: dict[NodePath, int] = {}
        return YamlFile(file, _value(node, (), lines, set()), lines)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        return Mistake(file, place.line + 1 if place else 1, f"{error.problem or 'not YAML'}; correct the YAML")
    except yaml.YAMLError as error:
        return Mistake(file, 1, f"{' '.join(str(error).split())}; correct the YAML")


def _value(node: yaml.Node, path: NodePath, lines: dict[NodePath, int], seen: set[int]) -> Any:
    if id(node) in seen:
        raise yaml.MarkedYAMLError(problem="anchors and aliases are not supported", problem_mark=node.start_mark)
    seen.add(id(node))
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_value(child, (*path, index), lines, seen) for index, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(node)
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
        case "int" if len(node.value) > _MOST_DIGITS:
            raise yaml.MarkedYAMLError(problem="the number is too large", problem_mark=node.start_mark)
        case "int":
            return int(node.value)
        case "null":
            return None
        case "str":
            return str(node.value)
        case other:
            raise yaml.MarkedYAMLError(problem=f"the tag `{other}` is not supported", problem_mark=node.start_mark)


class AppFile(NamedTuple):
    source: YamlFile
    spec: AppSpec


class ErrandFile(NamedTuple):
    source: YamlFile
    spec: ErrandSpec


class WritersGuide(NamedTuple):
    page: str
    keys: tuple[str, ...]


class SpecReading(NamedTuple):
    file: AppFile | ErrandFile | None
    """None if the records cannot be made; unknown keys are left out."""
    mistakes: tuple[Mistake, ...]


def read_spec(source: YamlFile) -> SpecReading:
    try:
        return SpecReading(_file(source, source.data), ())
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=True)
    guide = WritersGuide("docs/apps.md", record_keys(app_spec))
    mistakes = tuple(record_mistakes(source, errors, guide))
    if any(each["type"] != "extra_forbidden" for each in errors):
        return SpecReading(None, mistakes)
    known = deepcopy(source.data)
    for each in errors:
        *parents, last = _node_path(source, each["loc"])
        holder = known
        for part in parents:
            holder = holder[part]
        del holder[last]
    return SpecReading(_file(source, known), mistakes)


def _file(source: YamlFile, data: Any) -> AppFile | ErrandFile:
    if "errand" in data:
        return ErrandFile(source, ErrandSpec.model_validate(data))
    return AppFile(source, AppSpec.model_validate(data))


def record_mistakes(source: YamlFile, errors: Sequence[ErrorDetails], guide: WritersGuide) -> list[Mistake]:
    found: dict[NodePath, Mistake] = {}
    for error in errors:
        path = _node_path(source, error["loc"])
        text = _explain(error, path, guide)
        # A union reports an error for each member; one mistake for each value is enough.
        found.setdefault((*path, text) if error["type"] == "missing" else path, source.mistake(path, text))
    return sorted(found.values(), key=lambda mistake: mistake.line)


def _node_path(source: YamlFile, location: tuple[str | int, ...]) -> NodePath:
    """Convert a location of pydantic, which also names the members of unions, to a place in the file."""
    path: NodePath = ()
    for part in location:
        if (*path, part) in source.lines:
            path = (*path, part)
    return path


def _explain(error: ErrorDetails, path: NodePath, guide: WritersGuide) -> str:
    last = str(error["loc"][-1]) if error["loc"] else ""
    given = str(error["input"])
    given = given if len(given) <= 40 else given[:37] + "..."
    match error["type"]:
        case "extra_forbidden":
            close = nearest(last, [known for known in guide.keys if known != last])
            return f"unknown key `{last}`; {f'did you mean {close}?' if close else 'remove it'}"
        case "missing":
            where = f" in `{path[-1]}`" if path and isinstance(path[-1], str) else ""
            return f"the key `{last}` is missing{where}; add it"
        case "union_tag_invalid" | "union_tag_not_found" if "effect_kind" in error["msg"]:
            return f"unknown effect; start it with one of {', '.join(EFFECT_KINDS)}"
        case "union_tag_not_found":
            return "the widget has no `kind`; add one, such as `kind: button`"
        case "union_tag_invalid":
            return f"unknown kind `{error['ctx']['tag']}`; use one of {error['ctx']['expected_tags']}"
        case "literal_error" | "enum":
            return f"`{given}` is not allowed here; use {error['ctx']['expected']}"
        case _ if error["input"] is None:
            return 'there is no value; write one, or `""` for an empty text'
        case _:
            return f"{plain_mistake(f'`{given}`', error)}; see {guide.page}"


def record_keys(module: ModuleType) -> tuple[str, ...]:
    records = [each for each in vars(module).values() if hasattr(each, "model_fields")]
    return tuple(sorted({info.alias or key for record in records for key, info in record.model_fields.items()}))
