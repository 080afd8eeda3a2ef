"""Fields of a configuration that hold one of several specs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import PositiveInt, ValidationError

from trajmill.flows.configuration.tables import ByKind, all_tables, key_paths, spec_at, tables_in
from trajmill.schemas.names import UNKNOWN_KIND
from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup


class Phone(Spec):
    """A phone."""

    kind: Literal["phone"] = "phone"
    size: PositiveInt = 3
    """Inches."""


class Shop(Spec):
    """A shop."""

    name: str = "corner"


class Site(Spec):
    """A web site."""

    kind: Literal["site"] = "site"
    pages: tuple[Path, ...] = ()
    shop: Shop = Shop()


WORLDS = PartGroup("tests.worlds", "world", {"phone": f"{__name__}:Phone", "site": f"{__name__}:Site"})


class Whole(Spec):
    """A whole file."""

    world: Annotated[Spec, ByKind(WORLDS, "phone")] = Phone()
    others: dict[str, Annotated[Spec, ByKind(WORLDS, "phone")]] = {}


def read(text: str) -> Whole:
    return Whole.model_validate_json(text, strict=True)


def test_a_table_is_read_with_the_spec_of_its_kind() -> None:
    assert read("{}").world == Phone()
    assert read('{"world": {"size": 5}}').world == Phone(size=5)
    assert read('{"world": {"kind": "site", "pages": ["a"], "shop": {"name": "x"}}}').world == Site(
        pages=(Path("a"),), shop=Shop(name="x")
    )
    assert read('{"others": {"a": {"kind": "site"}, "b": {}}}').others == {"a": Site(), "b": Phone()}
    assert Whole.model_validate({"world": {"kind": "site", "pages": (Path("a"),)}}).world == Site(pages=(Path("a"),))
    assert Whole(world=Site()).world == Site()


@pytest.mark.parametrize(
    ("text", "place", "kind"),
    [
        ('{"world": {"kind": "fone"}}', ("world", "kind"), UNKNOWN_KIND),
        ('{"others": {"a": {"kind": "fone"}}}', ("others", "a", "kind"), UNKNOWN_KIND),
        ('{"world": {"sice": 3}}', ("world", "sice"), "extra_forbidden"),
        ('{"world": {"kind": "site", "size": 3}}', ("world", "size"), "extra_forbidden"),
        ('{"world": {"kind": "site", "shop": {"nam": ""}}}', ("world", "shop", "nam"), "extra_forbidden"),
        ('{"world": {"size": 0}}', ("world", "size"), "greater_than"),
        ('{"others": {"a": {"size": "3"}}}', ("others", "a", "size"), "int_type"),
        ('{"world": 3}', ("world",), "model_type"),
    ],
)
def test_an_error_names_the_place_of_the_mistake(text: str, place: tuple[str, ...], kind: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read(text)
    assert [(error["loc"], error["type"]) for error in refused.value.errors()] == [(place, kind)]


def test_the_nearest_kind_is_named() -> None:
    with pytest.raises(ValidationError, match="there is no world of kind 'fone'; did you mean phone"):
        read('{"world": {"kind": "fone"}}')


def test_every_kind_has_its_own_table() -> None:
    assert [(table.keys, table.kind) for table in all_tables(Whole)] == [
        (("world",), "phone"),
        (("world",), "site"),
        (("world", "shop"), "site"),
        (("others", "NAME"), "phone"),
        (("others", "NAME"), "site"),
        (("others", "NAME", "shop"), "site"),
    ]
    assert ("world", "size") in key_paths(Whole) and ("world", "shop", "name") in key_paths(Whole)


def test_the_spec_of_a_place_depends_on_what_is_written() -> None:
    assert spec_at(Whole, ["world"], {}) is Phone
    assert spec_at(Whole, ["world"], {"world": {"kind": "site"}}) is Site
    assert spec_at(Whole, ["world", "shop"], {"world": {"kind": "site"}}) is Shop
    assert spec_at(Whole, ["others", "a"], {"others": {"a": {"kind": "site"}}}) is Site


def test_the_tables_of_a_configuration_are_those_in_force() -> None:
    whole = read('{"world": {"kind": "site"}, "others": {"b": {}}}')
    assert [keys for keys, _ in tables_in(whole)] == [(), ("world",), ("world", "shop"), ("others", "b")]


def test_what_is_chosen_by_kind_is_part_of_the_identity() -> None:
    assert read('{"world": {"size": 5}}').identity() != Whole().identity()
