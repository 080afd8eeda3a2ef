"""As much of a POSIX shell as a device needs: what is not quoted is a command here as it is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_OPERATORS = re.compile(r"&&|\|\||2>&1|2>|>|;|\||&|\n")
_NAME = re.compile(r"[?#@*0-9]|[A-Za-z_]\w*")


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
            elif operator:
                targets[operator], operator = self._word(token, arguments, status), ""
            else:
                words.append(self._word(token, arguments, status))
        result = self._program(words, given) if words else Result()
        if targets.get("2>") == "&1":
            result = Result(result.out + result.error, result.status)
        elif "2>" in targets:
            result = result._replace(error=b"")
        if ">" in targets:
            self._write(targets[">"], result.out)
            result = result._replace(out=b"")
        return result

    def _word(self, token: Token, arguments: Sequence[str], status: int) -> str:
        return "".join(self._piece(piece, arguments, status) for piece in token.pieces)

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
    at, pieces, quoted = 0, list[Piece](), False
    while at < len(line):
        operator = _OPERATORS.match(line, at)
        begins = not pieces and not quoted
        if line[at] == "#" and begins:
            at = line.find("\n", at) if "\n" in line[at:] else len(line)
            continue
        # A redirection of standard error is an operator only where a word could begin.
        if operator and (operator[0][0] != "2" or begins):
            if not begins:
                yield Token("", tuple(pieces))
            yield Token(operator[0])
            at, pieces, quoted = operator.end(), [], False
        elif line[at] in " \t":
            if not begins:
                yield Token("", tuple(pieces))
            at, pieces, quoted = at + 1, [], False
        elif line[at] == "'":
            end = line.index("'", at + 1)
            pieces.append(Piece("text", line[at + 1 : end]))
            at, quoted = end + 1, True
        elif line[at] == '"':
            at, quoted = _double_quoted(line, at + 1, pieces), True
        else:
            at = _unquoted(line, at, pieces, '"$`\\')
    if pieces or quoted:
        yield Token("", tuple(pieces))


def _double_quoted(line: str, at: int, pieces: list[Piece]) -> int:
    while line[at] != '"':
        if line[at] == "\\" and line[at + 1] not in '"$`\\\n':
            pieces.append(Piece("text", "\\"))
            at += 1
        else:
            at = _unquoted(line, at, pieces, '"$`\\')
    return at + 1


def _unquoted(line: str, at: int, pieces: list[Piece], special: str) -> int:
    if line[at] == "\\":
        if line[at + 1 : at + 2] != "\n":
            pieces.append(Piece("text", line[at + 1 : at + 2]))
        return at + 2
    if line.startswith("$(", at):
        end = line.index(")", at)
        pieces.append(Piece("command", line[at + 2 : end]))
        return end + 1
    if line[at] == "`":
        end = line.index("`", at + 1)
        pieces.append(Piece("command", line[at + 1 : end]))
        return end + 1
    if line[at] == "$" and (name := _NAME.match(line, at + 1)):
        pieces.append(Piece("variable", name[0]))
        return name.end()
    pieces.append(Piece("text", line[at]))
    return at + 1
