"""Reads app and errand files into `AppSpec` and `ErrandSpec`, and reports every mistake with its line."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from types import ModuleType
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.schemas.nearest import nearest
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import EFFECT_KINDS, AppSpec, ErrandSpec
from trajmill.stages.environments.simulated.app_files.yaml_file import Mistake, NodePath, YamlFile


class AppFile(NamedTuple):
    """An app and the lines of its parts."""

    source: YamlFile
    spec: AppSpec


class ErrandFile(NamedTuple):
    """An errand and the lines of its parts."""

    source: YamlFile
    spec: ErrandSpec


class WritersGuide(NamedTuple):
    """What mistakes refer a writer of a file to."""

    page: str
    """The page of the documentation."""
    keys: tuple[str, ...]
    """All keys that such a file may have."""


class SpecReading(NamedTuple):
    """What a file says, and its mistakes."""

    file: AppFile | ErrandFile | None
    """None if the records cannot be made; unknown keys are left out."""
    mistakes: tuple[Mistake, ...]


def read_spec(source: YamlFile) -> SpecReading:
    """Make the records of a parsed file."""
    try:
        return SpecReading(_file(source, source.data), ())
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=True)
    mistakes = tuple(record_mistakes(source, errors, _apps_guide()))
    if any(each["type"] != "extra_forbidden" for each in errors):
        return SpecReading(None, mistakes)
    known = deepcopy(source.data)
    for each in errors:
        _remove(known, _node_path(source, each["loc"]))
    return SpecReading(_file(source, known), mistakes)


def _file(source: YamlFile, data: Any) -> AppFile | ErrandFile:
    if "errand" in data:
        return ErrandFile(source, ErrandSpec.model_validate(data))
    return AppFile(source, AppSpec.model_validate(data))


def _remove(data: Any, path: NodePath) -> None:
    for part in path[:-1]:
        data = data[part]
    del data[path[-1]]


def record_mistakes(source: YamlFile, errors: Sequence[ErrorDetails], guide: WritersGuide) -> list[Mistake]:
    """The mistakes that pydantic found in a file, by line."""
    found: dict[NodePath, Mistake] = {}
    for error in errors:
        path = _node_path(source, error["loc"])
        text = _explain(error, path, guide)
        # A union reports an error for each member; one mistake for each value is enough.
        found.setdefault((*path, text) if error["type"] == "missing" else path, source.mistake(path, text))
    return sorted(found.values(), key=lambda mistake: mistake.line)


def _node_path(source: YamlFile, location: tuple[str | int, ...]) -> NodePath:
    """The place in the file for pydantic's location, which also names the members of unions."""
    path: NodePath = ()
    for part in location:
        if (*path, part) in source.lines:
            path = (*path, part)
    return path


def _explain(error: ErrorDetails, path: NodePath, guide: WritersGuide) -> str:
    last = str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key `{last}`; {_instead(last, guide.keys)}"
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
            return f"`{_short(error['input'])}` is not allowed here; use {error['ctx']['expected']}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"expected keys with values, found `{_short(error['input'])}`; write `key: value`"
        case "tuple_type":
            return f"expected a list, found `{_short(error['input'])}`; put it in [brackets]"
        case _ if error["input"] is None:
            return 'there is no value; write one, or `""` for an empty text'
        case "string_type":
            return f"expected text, found `{_short(error['input'])}`; put it in quotes"
        case _:
            message = error["msg"].removeprefix("Input should be ")
            return f"expected {message}, found `{_short(error['input'])}`; see {guide.page}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _instead(key: str, keys: Sequence[str]) -> str:
    close = nearest(key, [known for known in keys if known != key])
    return f"did you mean {close}?" if close else "remove it"


def record_keys(module: ModuleType) -> tuple[str, ...]:
    """The keys of all records of a module, as files write them."""
    records = [each for each in vars(module).values() if hasattr(each, "model_fields")]
    return tuple(sorted({info.alias or key for record in records for key, info in record.model_fields.items()}))


def _apps_guide() -> WritersGuide:
    return WritersGuide("docs/apps.md", record_keys(app_spec))
