import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from trajmill.schemas.text import parse_expression, parse_python

_TEXT = "print(1 + 2 * (3 - 4))\n" * 200


@pytest.fixture
def threads_that_change_while_they_parse() -> Iterator[None]:
    """Objects that run Python when they are collected let another thread go on in the middle of a tree."""
    seconds, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50, 2, 2)
    yield
    sys.setswitchinterval(seconds)
    gc.set_threshold(*threshold)


class _Collected:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(200):
            pass


@pytest.mark.usefixtures("threads_that_change_while_they_parse")
def test_threads_that_parse_at_once_get_their_trees() -> None:
    def parse(_: int) -> int:
        garbage = [_Collected() for _ in range(50)]
        del garbage
        return len(parse_python(_TEXT).body)

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(parse, range(60))) == [200] * 60


def test_an_expression_is_one_value_and_nothing_else() -> None:
    assert ast.literal_eval(parse_expression("{'a': [1, 2]}")) == {"a": [1, 2]}
    for text in ("a = 1", "1; 2", "", "def f(): pass", "(", "import os"):
        with pytest.raises(SyntaxError):
            parse_expression(text)
