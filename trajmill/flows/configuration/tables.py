"""A field of the configuration that holds one of several specs, chosen by the key `kind` of its table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import UNKNOWN_KIND
from trajmill.schemas.spec import Spec, decisive_fields
from trajmill.stages.parts import PartGroup

KeyPath = tuple[str, ...]
ANY_NAME = "NAME"
"""In a key path, the place of a name that the user chooses, e.g. `endpoints.NAME.model`."""


@dataclass(frozen=True)
class ByKind:
    """Annotates a field, as in `Annotated[Spec, by_kind(ENVIRONMENTS, "simulated")]`."""

    group: PartGroup
    default: str
    """The kind of a table that names none."""

    def spec_class(self, table: object) -> type[Spec]:
        """The class of the spec for a table of the file.

        Raises:
            BadInputError: there is no spec of its kind.
        """
        return self.group.spec_class(self._kind(table))

    def _kind(self, table: object) -> str:
        return str(table.get("kind", self.default)) if isinstance(table, Mapping) else self.default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Make pydantic read the field as the spec of the table's kind."""
        return core_schema.with_info_plain_validator_function(self._read)

    def _read(self, value: object, info: ValidationInfo) -> Spec | None:
        if value is None or isinstance(value, Spec):
            return value
        try:
            spec = self.spec_class(value)
        except BadInputError as error:
            raise _unknown(str(error), value) from None
        if isinstance(value, Mapping):
            value = self.group.with_preset(self._kind(value), value)
        # In JSON mode pydantic is strict, but reads lists as tuples and strings as paths, as a file needs it.
        if info.mode == "json":
            return spec.model_validate_json(json.dumps(value), strict=True)
        return spec.model_validate(value)


def by_kind(group: PartGroup, default: str) -> ByKind:
    """The annotation of a field whose table has a `kind`; `default` is the kind of a table that names none."""
    return ByKind(group, default)


def _unknown(message: str, table: object) -> ValidationError:
    given = table.get("kind") if isinstance(table, Mapping) else table
    error = PydanticCustomError(UNKNOWN_KIND, "{message}", {"message": message})
    return ValidationError.from_exception_data("kind", [InitErrorDetails(type=error, loc=("kind",), input=given)])


class TableField(NamedTuple):
    """A field that is a table, or a table for each name that the user chooses."""

    spec: type[Spec]
    by_kind: ByKind | None
    by_name: bool

    def spec_of(self, table: object) -> type[Spec]:
        """The spec that a table in this place is read with.

        Raises:
            BadInputError: there is no spec of its kind.
        """
        return self.spec if self.by_kind is None else self.by_kind.spec_class(table)

    def built_in(self) -> dict[str | None, type[Spec]]:
        """The built-in specs by kind; a field without kinds has one spec, under None."""
        if self.by_kind is None:
            return {None: self.spec}
        group = self.by_kind.group
        return {kind: group.spec_class(kind) for kind in group.built_in}


class Table(NamedTuple):
    """A table that the file may have."""

    keys: KeyPath
    spec: type[Spec]
    kind: str | None
    """The kind that it belongs to; None if its keys do not depend on a kind."""

    def fields(self) -> dict[str, FieldInfo]:
        """Its own keys, without its sub-tables."""
        return {name: info for name, info in self.spec.model_fields.items() if table_field(info) is None}


def table_field(info: FieldInfo) -> TableField | None:
    """The table of a field; None for a plain value."""
    by_name = get_origin(info.annotation) is dict
    annotation: Any = get_args(info.annotation)[1] if by_name else info.annotation
    marks = info.metadata
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    candidates = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for each in candidates:
        if isinstance(each, type) and issubclass(each, Spec):
            return TableField(each, next((mark for mark in marks if isinstance(mark, ByKind)), None), by_name)
    return None


def all_tables(spec: type[Spec], keys: KeyPath = (), kind: str | None = None) -> Iterator[Table]:
    """Every table that has keys of its own; a table with kinds comes once for each built-in kind."""
    table = Table(keys, spec, kind)
    if table.fields():
        yield table
    for name, info in spec.model_fields.items():
        field = table_field(info)
        if field is not None:
            inner = (*keys, name, ANY_NAME) if field.by_name else (*keys, name)
            for its_kind, its_spec in field.built_in().items():
                yield from all_tables(its_spec, inner, its_kind or kind)


def key_paths(spec: type[Spec]) -> list[KeyPath]:
    """The path of every key, without the tables themselves."""
    return list(dict.fromkeys((*table.keys, name) for table in all_tables(spec) for name in table.fields()))


def spec_at(root: type[Spec], keys: Iterable[str], written: object) -> type[Spec]:
    """The spec of the table at a key path of a file.

    Args:
        root: the spec of the whole file.
        keys: names of tables, including names that the user chose.
        written: the content of the file; its `kind` keys choose the specs.

    Raises:
        KeyError: there is no such table.
        BadInputError: a table has an unknown kind.
    """
    spec, names = root, iter(keys)
    for name in names:
        field = table_field(spec.model_fields[name])
        if field is None:
            raise KeyError(name)
        written = _entry(written, name)
        if field.by_name:
            given = next(names, None)
            written = None if given is None else _entry(written, given)
        spec = field.spec_of(written)
    return spec


def tables_in(spec: Spec, keys: KeyPath = (), only_decisive: bool = False) -> Iterator[tuple[KeyPath, Spec]]:
    """The spec and all specs in it, each with its key path; `only_decisive` leaves out those that decide no rows."""
    yield keys, spec
    fields = type(spec).model_fields
    for name in decisive_fields(type(spec)) if only_decisive else fields:
        match getattr(spec, name):
            case Spec() as inner:
                yield from tables_in(inner, (*keys, name), only_decisive)
            case dict() as inner if table_field(fields[name]) is not None:
                for given, each in inner.items():
                    yield from tables_in(each, (*keys, name, given), only_decisive)


def _entry(table: object, name: str) -> object:
    return table.get(name) if isinstance(table, Mapping) else None
