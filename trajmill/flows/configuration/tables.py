"""The tables of a configuration file, some of which hold one of several specs, chosen by their key `kind`; as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Spec, decisive_fields
from trajmill.schemas.text import one_line
from trajmill.stages.parts import PartGroup

KeyPath = tuple[str, ...]
ANY_NAME = "NAME"
"""In a key path, the place of a name that the user chooses, e.g. `endpoints.NAME.model`."""


@dataclass(frozen=True)
class ByKind:
    """Annotation of a field, as in `Annotated[Spec, ByKind(ENVIRONMENTS, "simulated")]`."""

    group: PartGroup
    default: str
    """The kind of a table that names none."""

    def spec_class(self, table: object) -> type[Spec]:
        """Return the spec of a table's kind; `BadInputError` if there is none."""
        return self.group.spec_class(self._kind(table))

    def _kind(self, table: object) -> str:
        return str(table.get("kind", self.default)) if isinstance(table, Mapping) else self.default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def _read(self, value: object, info: ValidationInfo) -> Spec | None:
        if value is None or isinstance(value, Spec):
            return value
        try:
            spec = self.spec_class(value)
        except BadInputError as error:
            unknown = PydanticCustomError("unknown_name", "{message}", {"message": str(error)})
            details = [InitErrorDetails(type=unknown, loc=("kind",), input=value)]
            raise ValidationError.from_exception_data("kind", details) from None
        if isinstance(value, Mapping):
            value = self.group.with_preset(self._kind(value), value)
        # In JSON mode pydantic is strict, but reads lists as tuples and strings as paths, as a file needs it.
        if info.mode == "json":
            return spec.model_validate_json(json.dumps(value), strict=True)
        return spec.model_validate(value)


class TableField(NamedTuple):
    """A field that is a table, or a table for each name that the user chooses."""

    spec: type[Spec]
    by_kind: ByKind | None
    by_name: bool


class Table(NamedTuple):
    keys: KeyPath
    spec: type[Spec]
    kind: str | None
    """The kind that it belongs to; None if its keys do not depend on a kind."""

    def fields(self) -> dict[str, FieldInfo]:
        return {name: info for name, info in self.spec.model_fields.items() if table_field(info) is None}


def table_field(info: FieldInfo) -> TableField | None:
    """Return the table of a field; None for a plain value."""
    by_name = get_origin(info.annotation) is dict
    annotation: Any = get_args(info.annotation)[1] if by_name else info.annotation
    marks = info.metadata
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    for each in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        if isinstance(each, type) and issubclass(each, Spec):
            return TableField(each, next((mark for mark in marks if isinstance(mark, ByKind)), None), by_name)
    return None


def all_tables(spec: type[Spec], keys: KeyPath = (), kind: str | None = None) -> Iterator[Table]:
    """Yield every table that has keys of its own; one with kinds once for each built-in kind."""
    table = Table(keys, spec, kind)
    if table.fields():
        yield table
    for name, info in spec.model_fields.items():
        field = table_field(info)
        if field is None:
            continue
        inner = (*keys, name, ANY_NAME) if field.by_name else (*keys, name)
        if field.by_kind is None:
            yield from all_tables(field.spec, inner, kind)
        else:
            for each in field.by_kind.group.built_in:
                yield from all_tables(field.by_kind.group.spec_class(each), inner, each)


def key_paths(spec: type[Spec]) -> list[KeyPath]:
    return list(dict.fromkeys((*table.keys, name) for table in all_tables(spec) for name in table.fields()))


def spec_at(root: type[Spec], keys: Iterable[str], written: object) -> type[Spec]:
    """Return the spec of the table at a key path of a file, whose content `written` chooses specs by its `kind` keys.

    Raises KeyError (there is no such table), BadInputError (a table has an unknown kind).
    """
    spec, names = root, iter(keys)
    for name in names:
        field = table_field(spec.model_fields[name])
        if field is None:
            raise KeyError(name)
        for step in (name, next(names, "")) if field.by_name else (name,):
            written = written.get(step) if isinstance(written, Mapping) else None
        spec = field.spec if field.by_kind is None else field.by_kind.spec_class(written)
    return spec


def tables_in(spec: Spec, keys: KeyPath = (), only_decisive: bool = False) -> Iterator[tuple[KeyPath, Spec]]:
    """Yield the spec and all specs in it, each with its key path; `only_decisive` omits those that decide no rows."""
    yield keys, spec
    fields = type(spec).model_fields
    for name in decisive_fields(type(spec)) if only_decisive else fields:
        match getattr(spec, name):
            case Spec() as inner:
                yield from tables_in(inner, (*keys, name), only_decisive)
            case dict() as inner if table_field(fields[name]) is not None:
                for given, each in inner.items():
                    yield from tables_in(each, (*keys, name, given), only_decisive)


def config_as_toml(config: Spec) -> str:
    """Write the effective configuration with a comment for each key; it reads back the same."""
    lines: list[str] = []
    for keys, spec in tables_in(config):
        head = ["", f"# {one_line(spec.__doc__ or '')}", f"[{'.'.join(keys)}]"]
        for name, info in Table(keys, type(spec), None).fields().items():
            if (value := getattr(spec, name)) is not None:
                lines += [*head, f"# {one_line(info.description or '')}", f"{name} = {toml_value(value)}"]
                head = []
    return "\n".join(lines).lstrip("\n") + "\n"


def toml_value(value: object) -> str:
    match value:
        case tuple() | list():
            return f"[{', '.join(map(toml_value, value))}]"
        case frozenset() | set():
            return f"[{', '.join(sorted(map(toml_value, value)))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
        case Enum():
            return toml_value(value.value)
        case _:
            return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
