"""Removes keys from text that comes from outside: answers and errors of servers that may echo what they were sent."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, urlsplit

REMOVED = "***"
"""Stands in place of a key."""
_SHORTEST = 8
"""Characters of the shortest key that is removed: shorter ones, such as `EMPTY`, occur in ordinary text."""
_HOLDS_KEY = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|AUTH_STRING|CONNECTION_STRING)", re.IGNORECASE)
_HOLDS_URL = re.compile(r".*(URL|ENDPOINT|PROXY)", re.IGNORECASE)


class Secrets:
    """The keys that a process holds; it is never stored or sent to another process."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Remove these keys; ones shorter than eight characters are ignored."""
        found = sorted({key.strip() for key in keys if len(key.strip()) >= _SHORTEST}, key=len, reverse=True)
        forms = [form for key in found for form in ("".join(map(_character, key)), *_in_base64(key.encode()))]
        self._pattern = re.compile("|".join(forms).encode()) if forms else None

    @classmethod
    def of(cls, variables: Mapping[str, str], *keys: str, urls: Iterable[str] = ()) -> Secrets:
        """The given keys, the passwords in URLs, and the values of variables named as keys or URLs are."""
        named = (value for name, value in variables.items() if _HOLDS_KEY.fullmatch(name))
        places = (value for name, value in variables.items() if _HOLDS_URL.fullmatch(name))
        return cls((*keys, *named, *(_password(url) for url in (*urls, *places))))

    def scrub(self, text: str) -> str:
        """The text with each key replaced: as it is, percent-encoded, with JSON escapes, or in base64."""
        data = text.encode(errors="surrogatepass")
        return self.scrub_bytes(data).decode(errors="surrogatepass")

    def scrub_bytes(self, data: bytes) -> bytes:
        return self._pattern.sub(REMOVED.encode(), data) if self._pattern else data


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""


def _character(character: str) -> str:
    r"""A pattern of a character: itself, `\"` (also escaped twice), `\u0022` or `%22`."""
    percent = "".join(f"%{byte:02x}" for byte in character.encode())
    return rf"(?:\\{{0,4}}{re.escape(character)}|(?i:\\{{1,4}}u{ord(character):04x}|{percent}))"


def _in_base64(key: bytes) -> Iterator[str]:
    """Patterns of a key inside a base64 text, e.g. of `user:key`: what is written before it shifts it by 0 to 2 bytes.

    Only the characters that the key alone decides.
    """
    for shift, start in enumerate((0, 2, 3)):
        end = (shift + len(key)) * 8 // 6
        piece = b64encode(bytes(shift) + key).decode()[start:end]
        yield re.escape(piece).replace(r"\+", "[+-]").replace("/", r"\\{0,4}[/_]")
