"""Scripts of ours in the Python environment of another project, whose pins conflict with ours."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.child import end_child

_SECONDS_TO_START = 180.0
_SECONDS_TO_END = 2.0
_LONGEST_ANSWER = 1 << 26
_INHERITED = ("PATH", "LANG", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT_FILE")
"""Environment variables for a process that handles untrusted tasks; no keys are among them."""


class OtherPython(NamedTuple):
    """One process with a folder of its own; serves one request at a time, each a line of JSON, as its answer."""

    name: str
    process: Process
    temporary: TemporaryDirectory[str]

    @classmethod
    async def start(
        cls, name: str, python: Path, script: Sequence[str], advice: str, variables: Mapping[str, str]
    ) -> OtherPython:
        """Start a script, with its arguments; raises EnvironmentFailure (`setup`) if the interpreter is missing."""
        folder = TemporaryDirectory(prefix="trajmill-python-")
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *(str(python.absolute()), "-P", *script),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_ANSWER,
                env={**inherited, "HOME": folder.name, "TMPDIR": folder.name, **variables},
                cwd=folder.name,
                start_new_session=True,
            )
        except OSError as error:
            folder.cleanup()
            text = f"{python} cannot be started ({error.strerror}); {advice}"
            raise EnvironmentFailure(text, FailureClass.SETUP) from error
        started = cls(name, process, folder)
        try:
            await started._answer(_SECONDS_TO_START)
        except BaseException:
            await started.close()
            raise
        return started

    @property
    def is_alive(self) -> bool:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        # Its end shows in its output before anyone has waited for it.
        return self.process.returncode is None and not stdin.is_closing() and not stdout.at_eof()

    async def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer; raises EnvironmentFailure if it is an error or late, or the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        return await self._answer(seconds)

    def belongings(self) -> Belongings:
        return Belongings((self.process.pid,), (Path(self.temporary.name),))

    async def close(self) -> None:
        await end_child(self.process, _SECONDS_TO_END)
        await asyncio.to_thread(self.temporary.cleanup)

    async def _answer(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                answer: dict[str, Any] = json.loads(await self.process.stdout.readline())
                error = answer.pop("error")
        except asyncio.CancelledError:
            # Its late answer would be taken for that to the next request.
            await end_child(self.process, 0.0)
            raise
        except TimeoutError as late:
            # What it still does to the machine must not reach the next task.
            await end_child(self.process, 0.0)
            raise EnvironmentFailure(f"{self.name} did not answer within {seconds:g} s") from late
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as broken:
            raise EnvironmentFailure(f"the process of {self.name} has ended") from broken
        if error:
            raise EnvironmentFailure(f"{self.name}: {error}")
        return answer
