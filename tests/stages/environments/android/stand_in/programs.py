"""The programs of a device that adb clients run, answering as a device does."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence

from tests.stages.environments.android.stand_in.hierarchy import dump
from tests.stages.environments.android.stand_in.phone import ADB_KEYBOARD, LAUNCHER, Phone
from tests.stages.environments.android.stand_in.sh import Exit, Result, Shell
from trajmill.schemas.geometry import Box

_ACTIVITY = ".MainActivity"


class Programs:
    """The programs of one phone."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.shell = Shell(self._run, phone.write)
        self._named: dict[str, Callable[[Sequence[str], bytes], Result]] = {
            "[": self._test,
            "am": self._am,
            "cat": self._cat,
            "cmd": self._cmd,
            "dumpsys": self._dumpsys,
            "echo": lambda words, _: Result(" ".join(words).encode() + b"\n"),
            "exit": self._exit,
            "grep": _grep,
            "ime": self._ime,
            "input": self._input,
            "mkdir": lambda words, _: Result(),
            "pm": self._pm,
            "printf": lambda words, _: Result(words[1].encode()),
            "rm": self._rm,
            "screencap": self._screencap,
            "settings": self._settings,
            "sh": self._sh,
            "uiautomator": self._uiautomator,
            "wm": self._wm,
        }

    def run(self, line: str) -> Result:
        """Run a line as adbd hands it to `sh`; standard error comes with the output."""
        with self.phone.lock:
            return self.shell.run(line)

    def _run(self, words: Sequence[str], given: bytes) -> Result:
        self.phone.ran.append(tuple(words))
        program = self._named.get(words[0])
        if program is None:
            return Result(b"", 127, f"sh: {words[0]}: inaccessible or not found\n".encode())
        try:
            return program(words[1:], given)
        except (IndexError, ValueError) as error:
            return Result(b"", 255, f"Error: Invalid arguments for command: {error}\n".encode())

    @property
    def _bound(self) -> bool:
        return self.phone.looks_until_bound == 0

    def _input(self, words: Sequence[str], _: bytes) -> Result:
        match words:
            case ["tap", x, y]:
                self.phone.tap(int(x), int(y))
            case ["swipe" | "draganddrop", x, y, x2, y2, *_]:
                self.phone.swipe(int(x), int(y), int(x2), int(y2))
            case ["text", text]:
                if not text.isascii():
                    return Result(b"", 255, b"java.lang.NullPointerException: no key events for the text\n")
                self.phone.type(spaces(text))
            case ["keyevent", *names]:
                for name in names:
                    self.phone.key(name)
            case _:
                return Result(b"", 255, b"Error: Unknown command\n")
        return Result()

    def _screencap(self, words: Sequence[str], _: bytes) -> Result:
        warning = b"[Warning] Multiple displays were found.\n" if self.phone.two_displays else b""
        return Result(b"" if self.phone.faults.blank_screenshot else self.phone.screenshot(), 0, warning)

    def _uiautomator(self, words: Sequence[str], _: bytes) -> Result:
        path = words[1] if len(words) > 1 else "/sdcard/window_dump.xml"
        screen = Box(0, 0, *self.phone.size)
        tree = dump(self.phone.elements(), self.phone.app, screen, self.phone.rotation).encode()
        self.phone.write(path, tree)
        return Result(f"UI hierchary dumped to: {path}\n".encode())

    def _dumpsys(self, words: Sequence[str], _: bytes) -> Result:
        keyboard = self.phone.keyboard()
        match words:
            case ["window", "InputMethod"]:
                region = f"SkRegion(({','.join(map(str, keyboard))}))" if keyboard else "SkRegion()"
                text = f"  Window #1 Window{{5fe u0 InputMethod}}:\n    touchable region={region}\n"
            case ["window", *_]:
                shown = f"{self.phone.app}/{self.phone.app}{_ACTIVITY}"
                text = (
                    "WINDOW MANAGER WINDOWS (dumpsys window windows)\n"
                    f"  mCurrentFocus=Window{{41b37570 u0 {shown}}}\n"
                    f"  mFocusedApp=ActivityRecord{{428bd8 u0 {self.phone.app}/{_ACTIVITY} t14}}\n"
                )
            case ["input_method"]:
                self.phone.looks_until_bound = max(0, self.phone.looks_until_bound - 1)
                chosen = self.phone.settings["secure.default_input_method"]
                text = (
                    f"  mCurId={chosen} mHaveConnection=true mBoundToMethod={_word(self._bound)} mVisibleBound=false\n"
                )
                text += f"  mShowRequested=true mInputShown={_word(keyboard is not None)}\n"
            case _:
                text = f"Can't find service: {words[0]}\n"
        return Result(text.encode())

    def _wm(self, words: Sequence[str], _: bytes) -> Result:
        wide, high = sorted(self.phone.size)
        return Result(f"Physical size: {wide}x{high}\n".encode() if words[0] == "size" else b"")

    def _settings(self, words: Sequence[str], _: bytes) -> Result:
        if self.phone.faults.without_system:
            return Result(b"", 20, b"cmd: Can't find service: settings\n")
        name = f"{words[1]}.{words[2]}"
        match words[0]:
            case "get":
                return Result(self.phone.settings.get(name, "null").encode() + b"\n")
            case "put":
                self.phone.settings[name] = words[3]
                return Result()
            case _:
                self.phone.settings.pop(name, None)
                return Result(b"Deleted 1 rows\n")

    def _am(self, words: Sequence[str], _: bytes) -> Result:
        match words:
            case ["force-stop", package]:
                self.phone.stop(package)
            case ["start", *rest]:
                package = rest[rest.index("-n") + 1].partition("/")[0]
                if package not in self.phone.packages().values():
                    return Result(b"Error type 3\nError: Activity class does not exist.\n", 1)
                self.phone.open(package)
                return Result(b"Status: ok\nLaunchState: COLD\nComplete\n")
            case ["broadcast", *rest]:
                if self.phone.settings["secure.default_input_method"] == ADB_KEYBOARD and self._bound:
                    self._broadcast(rest)
                return Result(b"Broadcasting: Intent { flg=0x400000 }\nBroadcast completed: result=0\n")
        return Result()

    def _broadcast(self, words: Sequence[str]) -> None:
        match words:
            case ["-a", "ADB_INPUT_B64", "--es", "msg", coded]:
                self.phone.type(base64.b64decode(coded, validate=True).decode())
            case ["-a", "ADB_CLEAR_TEXT"]:
                self.phone.clear_field()

    def _pm(self, words: Sequence[str], _: bytes) -> Result:
        if words[0] == "list":
            found = (name for name in self.phone.packages().values() if words[-1] in name)
            return Result("".join(f"package:{name}\n" for name in found).encode())
        if words[1] not in self.phone.packages().values():
            return Result(b"Failed\n", 1)
        self.phone.wipe(words[1])
        return Result(b"Success\n")

    def _cmd(self, words: Sequence[str], _: bytes) -> Result:
        if "android.intent.category.HOME" in words:
            package = LAUNCHER
        else:
            package = words[-1]
            if package not in self.phone.packages().values():
                return Result(b"No activity found\n")
        return Result(f"priority=0 preferredOrder=0 match=0x108000 isDefault=false\n{package}/{_ACTIVITY}\n".encode())

    def _ime(self, words: Sequence[str], _: bytes) -> Result:
        if words[0] == "list":
            return Result("".join(f"{name}\n" for name in self.phone.keyboards).encode())
        if words[1] not in self.phone.keyboards:
            return Result(b"", 255, f"Unknown input method {words[1]} cannot be selected\n".encode())
        if words[0] == "set":
            self.phone.settings["secure.default_input_method"] = words[1]
            self.phone.looks_until_bound = 3
        return Result(f"Input method {words[1]} selected\n".encode())

    def _test(self, words: Sequence[str], _: bytes) -> Result:
        return Result(status=0 if self.phone.read(words[1]) is not None else 1)

    def _cat(self, words: Sequence[str], given: bytes) -> Result:
        if not words:
            return Result(given)
        content = self.phone.read(words[0])
        if content is None:
            return Result(b"", 1, f"cat: {words[0]}: No such file or directory\n".encode())
        return Result(content)

    def _rm(self, words: Sequence[str], _: bytes) -> Result:
        for path in words:
            self.phone.files.pop(path, None)
        return Result()

    def _sh(self, words: Sequence[str], _: bytes) -> Result:
        return self.shell.run(words[1], words[2:] or ("sh",))

    def _exit(self, words: Sequence[str], _: bytes) -> Result:
        raise Exit(int(words[0]))


def spaces(text: str) -> str:
    """What `input text` types for its argument: `%s` is a space, read from left to right as Android's Input.java."""
    typed: list[str] = []
    after_percent = False
    for character in text:
        if after_percent and character == "s":
            typed[-1], after_percent = " ", False
            continue
        typed.append(character)
        after_percent = character == "%"
    return "".join(typed)


def _word(value: bool) -> str:
    return "true" if value else "false"


def _grep(words: Sequence[str], given: bytes) -> Result:
    pattern = re.compile(words[-1])
    lines = [line for line in given.decode(errors="replace").splitlines() if pattern.search(line)]
    return Result("".join(f"{line}\n" for line in lines).encode(), 0 if lines else 1)
