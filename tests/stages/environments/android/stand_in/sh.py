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
_ENDS = (";", "&", "\n", "&&", "||")


class Result(NamedTuple):
    """What a program printed and its exit status."""

    out: bytes = b""
    status: int = 0
    error: bytes = b""


class Operator(NamedTuple):
    text: str


Token = Operator | list[re.Match[str]]
"""An operator, or the pieces of a word; `$name`, `$(...)` and backticks are expanded later, unless in single quotes."""


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
        command: list[Token] = []
        for token in [*tokens(line), Operator(";")]:
            if not isinstance(token, Operator) or token.text not in _ENDS:
                command.append(token)
                continue
            if command and not skip:
                try:
                    result = self._pipeline(command, arguments, status)
                except Exit as end:
                    return Result(out, end.status)
                out, status = out + result.out, result.status
            command = []
            skip = (token.text == "&&" and status != 0) or (token.text == "||" and status == 0)
        return Result(out, status)

    def _pipeline(self, command: Sequence[Token], arguments: Sequence[str], status: int) -> Result:
        stages: list[list[Token]] = [[]]
        for token in command:
            if token == Operator("|"):
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
            if isinstance(token, Operator):
                operator = token.text
                if operator == "2>&1":
                    operator, targets["2>"] = "", "&1"
                continue
            word = "".join(self._expanded(piece, arguments, status) for piece in token)
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

    def _expanded(self, piece: re.Match[str], arguments: Sequence[str], status: int) -> str:
        text = piece[piece.lastgroup or 0]
        match piece.lastgroup:
            case "command" | "quoted_command":
                return self.run(text, arguments).out.decode(errors="replace").rstrip("\n")
            case "variable" if text == "?":
                return str(status)
            case "variable":
                return arguments[int(text)] if text.isdecimal() and int(text) < len(arguments) else ""
            case "escaped" if text == "\n":  # An escaped end of a line is none.
                return ""
        return text


def tokens(line: str) -> Iterator[Token]:
    word: list[re.Match[str]] | None = None
    for match in _TOKEN.finditer(line):
        if match.lastgroup not in ("operator", "space"):
            inner = _IN_QUOTES.finditer(match["double"]) if match.lastgroup == "double" else [match]
            word = [*(word or []), *inner]
            continue
        if word is not None:
            yield word
            word = None
        if match.lastgroup == "operator":
            yield Operator(match[0])
    if word is not None:
        yield word
