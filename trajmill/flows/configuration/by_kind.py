"""A field of the configuration that holds one of several specs, chosen by the key `kind` of its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import UNKNOWN_KIND
from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup


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
