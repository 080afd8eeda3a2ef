"""Finds the spec of a part by its `kind`: the built-in ones, and those of installed packages.

A package adds a part with an entry point and no change here, for example an environment in its `pyproject.toml`:

    [project.entry-points."trajmill.environments"]
    my_phone = "my_package.phone:PhoneSpec"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import Spec

S = TypeVar("S", bound=Spec)
_EXTRA = re.compile(r"^(?:Input|Value error,|String|Tuple) |(?: after validation, not| or instance of|, unable to) .*$")
_PLAIN = {
    "Field required": "is missing",
    "Extra inputs are not permitted": "is an unknown key",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text in quotes",
    "a valid array": "a list in [brackets]",
    "a valid tuple": "a list in [brackets]",
    "a valid dictionary": "a table of keys and values",
    "an object": "a table of keys and values",
    "greater than or equal to": "at least",
    "greater than": "more than",
    "less than or equal to": "at most",
    "does not match any of the expected tags:": "is none of",
    "match pattern '^[a-z0-9][a-z0-9_-]*$'": "have only lower-case letters, digits, - and _",
    r"match pattern '^(https?://\S+)?$'": "start with http:// or https://",
}
_WORDS = re.compile("|".join(map(re.escape, _PLAIN)))


def plain_mistake(key: str, *errors: ErrorDetails) -> str:
    """Describe in one line what is wrong with a key's value; `errors` has one for each type that it could have."""
    messages = dict.fromkeys(_EXTRA.sub("", each["msg"]) for each in errors)
    text = _WORDS.sub(lambda found: _PLAIN[found[0]], " or ".join(messages)).replace(" or should be ", " or ")
    return f"{key} {text}" if text.startswith(("should ", "is ")) else f"{key}: {text}"


def first_mistake(error: ValidationError, whole: str) -> str:
    """Describe the first mistake; `whole` replaces the key if the whole value is wrong."""
    first = error.errors(include_url=False, include_context=False)[0]
    return plain_mistake(".".join(map(str, first["loc"])) or whole, first)


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
            raise BadInputError(f"{kind}: {first_mistake(error, 'its settings')}") from None
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
