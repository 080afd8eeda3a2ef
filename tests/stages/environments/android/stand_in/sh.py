"""As much of a POSIX shell as our lines need: what else a shell would act on, such as `$(...)`, is an error here."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<operator>&&|\|\||2>&1|2>|[>;|\n])|(?P<space> +)|'(?P<single>[^']*)'|\"(?P<double>[^\"`\\]*)\""
    r"|(?P<double_>\$\?)|(?P<single_>[\w@%+=:,./\[\]-]+)",
    re.ASCII,
)
_ENDS = (";", "\n", "&&", "||")


class Result(NamedTuple):
    """What a program printed and its exit status."""

    out: bytes = b""
    status: int = 0
    error: bytes = b""


class Operator(NamedTuple):
    text: str


class Word(NamedTuple):
    """Pieces of a word, and whether `$1` and `$?` stand for something in each."""

    pieces: list[tuple[str, bool]]

    def expanded(self, arguments: Sequence[str], status: int) -> str:
        values = {"$?": str(status), **{f"${number}": each for number, each in enumerate(arguments)}}
        return "".join(
            re.sub(r"\$.", lambda found: values[found[0]], text) if holds else text for text, holds in self.pieces
        )


Token = Operator | Word


class Exit(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class Shell:
    """Runs lines with programs, which get their words and what the one before them in a pipe printed."""

    def __init__(self, program: Callable[[Sequence[str], bytes], Result], write: Callable[[str, bytes], None]) -> None:
        self._program = program
        self._write = write

    def run(self, line: str, arguments: Sequence[str] = ("sh",)) -> Result:
        """Run a line; standard error comes with the output, as on a device."""
        out, status, skip = b"", 0, False
        stages: list[list[Token]] = [[]]
        for token in [*tokens(line), Operator(";")]:
            if token == Operator("|"):
                stages.append([])
            elif isinstance(token, Word) or token.text not in _ENDS:
                stages[-1].append(token)
            else:
                result = Result()
                try:
                    for stage in stages if stages[0] and not skip else ():
                        result = self._simple(stage, arguments, status, result.out)
                        out += result.error
                        status = result.status
                except Exit as end:
                    return Result(out, end.status)
                out, stages = out + result.out, [[]]
                skip = (token.text == "&&" and status != 0) or (token.text == "||" and status == 0)
        return Result(out, status)

    def _simple(self, command: Sequence[Token], arguments: Sequence[str], status: int, given: bytes) -> Result:
        words: list[str] = []
        targets: dict[str, str] = {}
        operator = ""
        for token in command:
            if isinstance(token, Operator):
                operator = "" if token.text == "2>&1" else token.text
                targets[token.text] = ""
            elif operator:
                targets[operator], operator = token.expanded(arguments, status), ""
            else:
                words.append(token.expanded(arguments, status))
        result = self._program(words, given)
        if "2>&1" in targets:
            result = Result(result.out + result.error, result.status)
        elif "2>" in targets:
            result = result._replace(error=b"")
        if ">" in targets:
            self._write(targets[">"], result.out)
            result = result._replace(out=b"")
        return result


def tokens(line: str) -> Iterator[Token]:
    pieces, at = list[tuple[str, bool]](), 0
    while at < len(line):
        found = _TOKEN.match(line, at)
        if found is None:
            raise ValueError(f"a shell would act on {line[at:]!r}")
        at, kind = found.end(), found.lastgroup or ""
        if kind not in ("operator", "space"):
            pieces.append((found[kind], kind.startswith("double")))
            continue
        if pieces:
            yield Word(pieces)
            pieces = []
        if kind == "operator":
            yield Operator(found[0])
    if pieces:
        yield Word(pieces)
