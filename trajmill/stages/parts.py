"""Finds the spec of a part by its `kind`: the built-in ones, and those of installed packages.

A package adds a part with an entry point and no change here, for example an environment in its `pyproject.toml`:

    [project.entry-points."trajmill.environments"]
    my_phone = "my_package.phone:PhoneSpec"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import Spec

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class PartGroup:
    name: str
    """The entry point group, e.g. `trajmill.environments`."""
    word: str
    """Noun for a message, e.g. `environment`."""
    built_in: Mapping[str, str] = field(default_factory=dict)
    """Built-in specs by kind, in entry point syntax: `package.module:Class`."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """Presets by kind: `package:file.toml`, a table whose key `extends` names the kind whose defaults it changes."""

    def kinds(self) -> tuple[str, ...]:
        """Return all kinds, the built-in ones first."""
        return (*self.built_in, *self.presets, *sorted(set(self._added()) - set(self.built_in)))

    def with_preset(self, kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return a table of a kind; that of a preset becomes a table of the kind that it extends."""
        if kind not in self.presets:
            return dict(table)
        preset = self._preset(kind)
        base = preset.pop("extends")
        return {**preset, **table, "kind": base}

    def spec_class(self, kind: str) -> type[Spec]:
        """Import and return the spec of a kind, or raise BadInputError."""
        if kind in self.built_in:
            return _load(EntryPoint(kind, self.built_in[kind], self.name))
        if kind in self.presets:
            return self.spec_class(self._preset(kind)["extends"])
        added = self._added()
        if kind not in added:
            raise BadInputError(f"there is no {self.word} of kind {kind!r}; {instead_of(kind, self.kinds())}")
        return _load(added[kind])

    def default_spec(self, kind: str, base: type[S], settings: Mapping[str, Any] | None = None) -> S:
        """Return the spec of a kind with its defaults, but for `settings`.

        Raises BadInputError: there is no such kind, the package that adds it cannot be imported, its spec is no `base`,
        or a setting is wrong.
        """
        try:
            spec = self.spec_class(kind).model_validate(self.with_preset(kind, settings or {}))
        except ValidationError as error:
            wrong = error.errors()[0]
            text = "it has no such setting" if wrong["type"] == "extra_forbidden" else wrong["msg"]
            raise BadInputError(f"{kind}: {'.'.join(map(str, wrong['loc']))}: {text}") from None
        if not isinstance(spec, base):
            raise BadInputError(f"{self.name}: {kind} is no {base.__module__}.{base.__qualname__}")
        return spec

    def _preset(self, kind: str) -> dict[str, Any]:
        package, _, file = self.presets[kind].partition(":")
        return tomllib.loads(files(package).joinpath(file).read_text(encoding="utf-8"))

    def _added(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.name)}


def _load(point: EntryPoint) -> type[Spec]:
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise BadInputError(f"{point.group}: {point.name} = {point.value} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Spec)):
        raise BadInputError(f"{point.group}: {point.name} = {point.value} is no trajmill.schemas.spec.Spec")
    return found
