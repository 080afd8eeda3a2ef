"""The command line, called in the process of a test."""

from typing import NamedTuple

import pytest

from trajmill.flows.cli.app import run


class CommandLine(NamedTuple):
    output: pytest.CaptureFixture[str]

    def said(self, *words: object) -> str:
        """What a command prints that succeeds."""
        code, printed = run(list(map(str, words))), self.output.readouterr()
        assert code == 0, (words, printed.err)
        return printed.out

    def failed(self, *words: object) -> str:
        """What a command says that fails."""
        code, printed = run(list(map(str, words))), self.output.readouterr()
        assert code == 1, (words, code, printed)
        return printed.err

    def refused(self, *words: object) -> str:
        """The one line, with its end, that a command says when it fails."""
        said = self.failed(*words)
        assert said.count("\n") == 1, said
        return said
