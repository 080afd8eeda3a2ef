import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from trajmill.schemas.secrets import Secrets

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
