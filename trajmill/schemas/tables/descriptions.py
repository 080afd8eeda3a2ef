"""What the tables and their columns mean, read from the docstrings of the records."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from trajmill.schemas.python_text import parse_python
from trajmill.schemas.record import Row
from trajmill.schemas.tables.registry import TABLES, arrow_schema


class TableDescription(NamedTuple):
    """The meaning of a table."""

    text: str
    """What one row is."""
    columns: Mapping[str, str]
    """What each column of its record holds, in the order of the table."""


def describe_table(table: str) -> TableDescription:
    """The meaning of a table and of its columns. Raises KeyError for an unknown table or an undescribed column."""
    record = TABLES[table]
    fields = {name: text for each in reversed(_records(record)) for name, text in _field_docstrings(each)}
    return TableDescription(_one_line(record.__doc__ or ""), {name: fields[name] for name in arrow_schema(table).names})


def _records(record: type[Row]) -> list[type]:
    """The class of a row and the rows that it extends, itself first."""
    return [each for each in record.__mro__ if issubclass(each, Row)]


def _field_docstrings(record: type) -> Iterator[tuple[str, str]]:
    """The names of a class's own fields with the strings under them."""
    for field, below in pairwise(_classes(record.__module__)[record.__name__].body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, _one_line(text)


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The definitions of a module's classes by name."""
    statements = parse_python(inspect.getsource(sys.modules[module])).body
    return {each.name: each for each in statements if isinstance(each, ast.ClassDef)}


def _one_line(text: str) -> str:
    return " ".join(text.split())
