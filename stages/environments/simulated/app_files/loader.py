"""Reads app and errand files into `AppSpec` and `ErrandSpec`, and reports every mistake with its line."""

from __future__ import annotations

from collections.abc import Sequence
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


def read_spec(source: YamlFile) -> AppFile | ErrandFile | list[Mistake]:
    """The records of a parsed file, or its mistakes."""
    try:
        if "errand" in source.data:
            return ErrandFile(source, ErrandSpec.model_validate(source.data))
        return AppFile(source, AppSpec.model_validate(source.data))
    except ValidationError as error:
        return _mistakes(source, error.errors(include_url=False, include_context=True))


def _mistakes(source: YamlFile, errors: Sequence[ErrorDetails]) -> list[Mistake]:
    found: dict[NodePath, Mistake] = {}
    for error in errors:
        path = _node_path(source, error["loc"])
        text = _explain(error, path)
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


def _explain(error: ErrorDetails, path: NodePath) -> str:
    last = str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key `{last}`; {_instead(last)}"
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
        case _ if error["input"] is None:
            return 'there is no value; write one, or `""` for an empty text'
        case "string_type":
            return f"expected text, found `{_short(error['input'])}`; put it in quotes"
        case _:
            message = error["msg"].removeprefix("Input should be ")
            return f"expected {message}, found `{_short(error['input'])}`; see docs/apps.md"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _instead(key: str) -> str:
    close = nearest(key, [known for known in _known_keys() if known != key])
    return f"did you mean {close}?" if close else "remove it"


def _known_keys() -> list[str]:
    records = [each for each in vars(app_spec).values() if hasattr(each, "model_fields")]
    return sorted({info.alias or key for record in records for key, info in record.model_fields.items()})
