"""As much of a POSIX shell as a device needs: what is not quoted is a command here as it is there."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_EXPANDED = r"\$\((?P<command>[^)]*)\)|`(?P<quoted_command>[^`]*)`|\$(?P<variable>[?#@*0-9]|[A-Za-z_]\w*)"
_TOKEN = re.compile(
    # A redirection of standard error and a comment begin only where a word could.
    rf"(?P<operator>&&|\|\||(?<![^\s;|&>])2>&1|(?<![^\s;|&>])2>|[>;|&\n])|(?P<space>[ \t]+|(?<![^\s;|&>])#[^\n]*)"
    rf"|'(?P<single>[^']*)'|\"(?P<double>(?:\\.|[^\"\\])*)\"|{_EXPANDED}|\\(?P<escaped>.)|(?P<text>.)",
    re.DOTALL,
)
_IN_QUOTES = re.compile(rf"\\(?P<escaped>[\"$`\\\n])|{_EXPANDED}|(?P<text>.)", re.DOTALL)


class Result(NamedTuple):
    """What a program printed and its exit status."""

    out: bytes = b""
    status: int = 0
    error: bytes = b""


Program = Callable[[Sequence[str], bytes], Result]
"""Runs words with what the program before it in a pipe printed."""


class Piece(NamedTuple):
    """A part of a word."""

    kind: str
    """text, variable or command."""
    text: str


class Token(NamedTuple):
    """A word, or an operator where `operator` is not empty."""

    operator: str
    pieces: tuple[Piece, ...] = ()


class Exit(Exception):
    """The program `exit`."""

    def __init__(self, status: int) -> None:
        self.status = status


class Shell:
    """Runs lines with the programs of one phone."""

    def __init__(self, program: Program, write: Callable[[str, bytes], None]) -> None:
        self._program = program
        self._write = write

    def run(self, line: str, arguments: Sequence[str] = ("sh",)) -> Result:
        """Run a line; standard error comes with the output, as on a device."""
        out, status, skip = b"", 0, False
        commands: list[list[Token]] = [[]]
        for token in [*tokens(line), Token(";")]:
            if token.operator not in (";", "&", "\n", "&&", "||"):
                commands[-1].append(token)
                continue
            if commands[-1] and not skip:
                try:
                    result = self._pipeline(commands[-1], arguments, status)
                except Exit as end:
                    return Result(out, end.status)
                out, status = out + result.out, result.status
            commands.append([])
            skip = (token.operator == "&&" and status != 0) or (token.operator == "||" and status == 0)
        return Result(out, status)

    def _pipeline(self, command: Sequence[Token], arguments: Sequence[str], status: int) -> Result:
        stages: list[list[Token]] = [[]]
        for token in command:
            if token.operator == "|":
                stages.append([])
            else:
                stages[-1].append(token)
        result, shown = Result(), b""
        for stage in stages:
            result = self._simple(stage, arguments, status, result.out)
            shown += result.error
        return Result(shown + result.out, result.status)

    def _simple(self, command: Sequence[Token], arguments: Sequence[str], status: int, given: bytes) -> Result:
        words: list[str] = []
        targets: dict[str, str] = {}
        operator = ""
        for token in command:
            if token.operator == "2>&1":
                targets["2>"] = "&1"
            elif token.operator:
                operator = token.operator
            else:
                word = "".join(self._piece(piece, arguments, status) for piece in token.pieces)
                if operator:
                    targets[operator], operator = word, ""
                else:
                    words.append(word)
        result = self._program(words, given) if words else Result()
        if targets.get("2>") == "&1":
            result = Result(result.out + result.error, result.status)
        elif "2>" in targets:
            result = result._replace(error=b"")
        if ">" in targets:
            self._write(targets[">"], result.out)
            result = result._replace(out=b"")
        return result

    def _piece(self, piece: Piece, arguments: Sequence[str], status: int) -> str:
        if piece.kind == "text":
            return piece.text
        if piece.kind == "command":
            return self.run(piece.text, arguments).out.decode(errors="replace").rstrip("\n")
        if piece.text == "?":
            return str(status)
        if piece.text.isdecimal() and int(piece.text) < len(arguments):
            return arguments[int(piece.text)]
        return ""


def tokens(line: str) -> Iterator[Token]:
    """Words and operators of a line; `$name`, `$(...)` and backticks are expanded later, unless in single quotes."""
    word: list[Piece] | None = None
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup
        if kind not in ("operator", "space"):
            inner = _IN_QUOTES.finditer(match["double"]) if kind == "double" else [match]
            word = [*(word or []), *map(_piece_of, inner)]
            continue
        if word is not None:
            yield Token("", tuple(word))
            word = None
        if kind == "operator":
            yield Token(match[0])
    if word is not None:
        yield Token("", tuple(word))


def _piece_of(match: re.Match[str]) -> Piece:
    kind, text = match.lastgroup or "", match[match.lastgroup or 0]
    if kind in ("command", "quoted_command"):
        return Piece("command", text)
    if kind == "variable":
        return Piece("variable", text)
    # An escaped end of a line is none.
    return Piece("text", "" if kind == "escaped" and text == "\n" else text)
