import gc
import json
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.dialects.user_text import UserText, end_to_end_prompt, read
from trajmill.schemas.secrets import Secrets
from trajmill.schemas.text import parse_python

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


_KEY = 'sk-"a/b+c\\d?é>>~ 42'


@pytest.mark.parametrize(
    "echoed",
    [
        f"Bearer {_KEY}!",
        quote(_KEY),
        quote(_KEY, safe="").lower(),
        json.dumps({"a": _KEY}),
        json.dumps({"a": _KEY}, ensure_ascii=False),
        json.dumps(json.dumps({"a": _KEY})),
        json.dumps(_KEY).replace("/", r"\/"),
        "".join(rf"\u{ord(letter):04X}" for letter in _KEY),
        *(b64encode(f"{user}:{_KEY}".encode()).decode() for user in ("", "a", "bc", "user")),
        *(urlsafe_b64encode(f"{user}:{_KEY}".encode()).decode() for user in ("", "a", "bc")),
    ],
)
def test_a_key_is_removed_in_each_spelling(echoed: str) -> None:
    scrubbed = Secrets([_KEY]).scrub(f"before {echoed} after")
    assert "***" in scrubbed and scrubbed.startswith("before ") and scrubbed.endswith(" after")
    assert len(scrubbed.replace("***", "")) < len("before  after") + 16


def test_keys_are_found_by_the_names_of_variables_and_in_urls() -> None:
    variables = {
        "AWS_SECRET_ACCESS_KEY": "of-the-bucket",
        "PREFECT_API_AUTH_STRING": "of:prefect",
        "HTTPS_PROXY": "http://me:of-the-proxy@proxy:3128",
        "PREFECT_API_URL": "http://[broken",
        "HOME": "/home/user",
    }
    secrets = Secrets.of(variables, "of-the-server", "EMPTY", urls=["http://me:of%2Fthe-url@host/v1"])
    text = "of-the-bucket of:prefect of-the-proxy /home/user of-the-server EMPTY of/the-url me"
    assert secrets.scrub(text) == "*** *** *** /home/user *** EMPTY *** me"


def test_guidance_is_laid_out_as_task_hints_and_notes() -> None:
    text = end_to_end_prompt("order a\npizza", "1. Open Bites.\n2. Tap it.", ["Opened it.", "Tapped; Step 9: no."])
    assert text == (
        "The user query: order a pizza\nGuidance:\n1. Open Bites.\n2. Tap it.\n"
        "Task progress (done on this device so far): Step 1: Opened it.; Step 2: Tapped; Step 9: no."
    )
    assert read(text) == UserText(
        "order a pizza", ("1. Open Bites.", "2. Tap it."), ("Opened it.", "Tapped; Step 9: no.")
    )


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(read(text), UserText)
    assert isinstance(read(end_to_end_prompt(text, text, [text])), UserText)
