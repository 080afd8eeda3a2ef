"""The programs of a device that adb clients run, answering as a device does."""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence

from tests.stages.environments.android.stand_in.hierarchy import dump
from tests.stages.environments.android.stand_in.phone import ADB_KEYBOARD, LAUNCHER, Phone
from tests.stages.environments.android.stand_in.sh import Exit, Result, Shell
from trajmill.schemas.actions import Click, LongPress, OpenApp, Swipe, TypeText
from trajmill.schemas.geometry import Box

_ACTIVITY = ".MainActivity"
_KEYBOARD_CHOSEN = "secure.default_input_method"


class Programs:
    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.shell = Shell(self._run, phone.write)

    def run(self, line: str, given: Callable[[int], bytes] = lambda _: b"") -> Result:
        """Run a line as adbd hands it to `sh`; standard error comes with the output, `given` reads standard input."""
        with self.phone.lock:
            self._given = given
            return self.shell.run(line)

    def _run(self, words: Sequence[str], given: bytes) -> Result:
        self.phone.ran.append(tuple(words))
        try:
            if words[0] == "timeout":
                _, seconds, *words = words
                if self.phone.faults.never_rests and "uiautomator" in words:
                    return Result(status=124 if int(seconds) else 125)
            found = self._tool(words, given) or self._screen(words) or self._system(words) or self._apps(words)
        except (IndexError, ValueError) as error:
            return Result(b"", 255, f"Error: Invalid arguments for command: {error}\n".encode())
        return found or Result(b"", 127, f"sh: {words[0]}: inaccessible or not found\n".encode())

    def _tool(self, words: Sequence[str], given: bytes) -> Result | None:
        match words:
            case ["run-as", package, *command]:
                if package not in self.phone.debuggable:
                    return Result(b"", 1, f"run-as: package not debuggable: {package}\n".encode())
                return self._data(command)
            case ["su", "0", *command] if self.phone.rooted:
                return self._data(command)
            case ["ls" | "stat" | "cat", *_, path] if path.startswith("/data/data/"):
                return Result(b"", 1, f"{words[0]}: {path}: Permission denied\n".encode())
            case ["ls", path] | ["[", _, path, "]"]:
                return Result(status=0 if self.phone.read(path) is not None else 1)
            case ["cat"]:
                return Result(given)
            case ["cat", path]:
                content = self.phone.read(path)
                missing = f"cat: {path}: No such file or directory\n".encode()
                return Result(b"", 1, missing) if content is None else Result(content)
            case ["echo", *said]:
                return Result(" ".join(said).encode() + b"\n")
            case ["exit", status]:
                raise Exit(int(status))
            case ["grep", *_, pattern]:
                lines = given.decode(errors="replace").splitlines()
                found = "".join(f"{line}\n" for line in lines if re.search(pattern, line))
                return Result(found.encode(), 0 if found else 1)
            case ["touch", path]:
                self.phone.write(path, b"")
                return Result()
            case ["mkdir", *_] | ["wm", "dismiss-keyguard"]:
                return Result()
            case ["printf", _, text]:
                return Result(text.encode())
            case ["rm", *paths]:
                for path in paths:
                    self.phone.files.pop(path, None)
                return Result()
            case ["sh", "-c", line, *arguments]:
                return self.shell.run(line, arguments or ("sh",))
        return None

    def _data(self, words: Sequence[str]) -> Result:
        """Read a file or folder of an app's own data."""
        match words:
            case ["ls", folder]:
                found = [name for name in self.phone.files if name.startswith(f"{folder}/")]
                return Result("\n".join(found).encode(), 0 if found else 1)
            case ["stat", "-c", "%s", path] if path in self.phone.files:
                return Result(b"%d\n" % len(self.phone.files[path]))
            case ["cat", path] if path in self.phone.files:
                return Result(self.phone.files[path])
        return Result(b"", 1, f"{words[0]}: {words[-1]}: No such file or directory\n".encode())

    def _screen(self, words: Sequence[str]) -> Result | None:
        phone, keyboard = self.phone, self.phone.keyboard()
        match words:
            case ["input", "tap", x, y]:
                phone.act(Click(x=int(x), y=int(y)))
            case ["input", "swipe", x, y, x2, y2, *_] if (x, y) == (x2, y2):
                phone.act(LongPress(x=int(x), y=int(y)))
            case ["input", "swipe" | "draganddrop", x, y, x2, y2, *_]:
                phone.act(Swipe(x=int(x), y=int(y), x2=int(x2), y2=int(y2)))
            case ["input", "text", text] if not text.isascii():
                return Result(b"", 255, b"java.lang.NullPointerException: no key events for the text\n")
            case ["input", "text", text]:
                phone.act(TypeText(text=text.replace("%s", " ")))
            case ["input", "keyevent", *names]:
                for name in names:
                    phone.key(name)
            case ["screencap", *_]:
                warning = b"[Warning] Multiple displays were found.\n" if phone.two_displays else b""
                return Result(b"" if phone.faults.blank_screenshot else phone.screenshot(), 0, warning)
            case ["uiautomator", "dump", path]:
                phone.write(path, dump(phone.elements(), phone.app, Box(0, 0, *phone.size), phone.rotation).encode())
                return Result(f"UI hierchary dumped to: {path}\n".encode())
            case ["wm", "size"]:
                wide, high = sorted(phone.size)
                return Result(f"Physical size: {wide}x{high}\n".encode())
            case ["dumpsys", "window", "InputMethod"]:
                region = f"SkRegion(({','.join(map(str, keyboard))}))" if keyboard else "SkRegion()"
                return Result(f"  Window #1 Window{{5fe u0 InputMethod}}:\n    touchable region={region}\n".encode())
            case ["dumpsys", "window", *_]:
                text = (
                    "WINDOW MANAGER WINDOWS (dumpsys window windows)\n"
                    f"  Window #4 Window{{41b37570 u0 {phone.app}/{phone.app}{_ACTIVITY}}}:\n"
                    "    mAttrs={(0,0)(fillxfill) sim={adjust=pan} ty=BASE_APPLICATION\n      "
                    f"{phone.secure_flags if phone.app == phone.secure else 'fl=LAYOUT_IN_SCREEN SPLIT_TOUCH'}\n"
                    "      pfl=FORCE_DRAW_STATUS_BAR_BACKGROUND}\n"
                    "  Window #5 Window{51b37571 u0 StatusBar}:\n    fl=NOT_FOCUSABLE SECURE\n"
                    f"  mCurrentFocus=Window{{41b37570 u0 {phone.app}/{phone.app}{_ACTIVITY}}}\n"
                    f"  mFocusedApp=ActivityRecord{{428bd8 u0 {phone.app}/{_ACTIVITY} t14}}\n"
                )
                return Result(text.encode())
            case ["dumpsys", "input_method"]:
                phone.looks_until_bound = max(0, phone.looks_until_bound - 1)
                bound = "false" if phone.looks_until_bound else "true"
                text = (
                    f"  mCurId={phone.settings[_KEYBOARD_CHOSEN]} mHaveConnection=true mBoundToMethod={bound}\n"
                    f"{phone.input_type}  mShowRequested=true mInputShown={'true' if keyboard else 'false'}\n"
                )
                return Result(text.encode())
            case _:
                return None
        return Result()

    def _system(self, words: Sequence[str]) -> Result | None:
        settings = self.phone.settings
        match words:
            case ["settings", *_] if self.phone.faults.without_system:
                return Result(b"", 20, b"cmd: Can't find service: settings\n")
            case ["settings", "get", namespace, key]:
                return Result(settings.get(f"{namespace}.{key}", "null").encode() + b"\n")
            case ["settings", "put", namespace, key, value]:
                settings[f"{namespace}.{key}"] = value
                return Result()
            case ["settings", "delete", namespace, key]:
                settings.pop(f"{namespace}.{key}", None)
                return Result(b"Deleted 1 rows\n")
            case ["content", "query", "--uri", uri, "--projection", columns]:
                if uri not in self.phone.content:
                    return Result(b"", 0, b"Error while accessing provider:none\njava.lang.IllegalStateException\n")
                assert all(columns.split(":"))
                return Result(self.phone.content[uri].encode() + b"\n")
            case ["ime", "list", *_]:
                return Result("".join(f"{name}\n" for name in self.phone.keyboards).encode())
            case ["ime", _, name] if name not in self.phone.keyboards:
                return Result(b"", 255, f"Unknown input method {name} cannot be selected\n".encode())
            case ["ime", how, name]:
                if how == "set":
                    settings[_KEYBOARD_CHOSEN], self.phone.looks_until_bound = name, 3
                return Result(f"Input method {name} selected\n".encode())
            case ["am", "broadcast", *said]:
                if settings[_KEYBOARD_CHOSEN] == ADB_KEYBOARD and not self.phone.looks_until_bound:
                    match said:
                        case ["-a", "ADB_INPUT_B64", "--es", "msg", coded]:
                            self.phone.act(TypeText(text=base64.b64decode(coded, validate=True).decode()))
                        case ["-a", "ADB_CLEAR_TEXT"]:
                            self.phone.act(TypeText(text="", clear=True))
                return Result(b"Broadcasting: Intent { flg=0x400000 }\nBroadcast completed: result=0\n")
        return None

    def _apps(self, words: Sequence[str]) -> Result | None:
        packages = set(self.phone.packages().values())
        match words:
            case ["am", "force-stop", package]:
                self.phone.stop(package)
                return Result()
            case ["am", "start", *_, "-n", component]:
                package = component.partition("/")[0]
                if package not in packages:
                    return Result(b"Error type 3\nError: Activity class does not exist.\n", 1)
                self.phone.act(OpenApp(app=package.rpartition(".")[2]))
                return Result(b"Status: ok\nLaunchState: COLD\nComplete\n")
            case ["pm", "path", package]:
                apk = f"package:/data/app/~~x==/{package}-1/base.apk\n" if package in self.phone.installed else ""
                return Result(apk.encode(), 0 if apk else 1)
            case ["sha1sum", path]:
                content = self.phone.installed.get(path.split("/")[-2].removesuffix("-1") if "/" in path else "")
                missing = f"sha1sum: {path}: No such file or directory\n".encode()
                if content is None:
                    return Result(b"", 1, missing)
                return Result(f"{hashlib.sha1(content, usedforsecurity=False).hexdigest()}  {path}\n".encode())
            case ["cmd", "package", "install", "-r", "-g", "-S", size]:
                content = self._given(int(size))
                if not content.startswith(b"PK"):
                    return Result(b"", 1, b"Failure [INSTALL_PARSE_FAILED_NOT_APK: no manifest]\n")
                self.phone.installed[content[2:].split()[0].decode()] = content
                return Result(b"Success\n")
            case ["pm", "grant", package, permission] if package in packages:
                self.phone.granted.append((package, permission))
                return Result()
            case ["cmd", "package", *_, package]:
                package = LAUNCHER if "android.intent.category.HOME" in words else package
                if package not in packages | {LAUNCHER}:
                    return Result(b"No activity found\n")
                activity = f"priority=0 preferredOrder=0 match=0x108000 isDefault=false\n{package}/{_ACTIVITY}\n"
                return Result(activity.encode())
            case ["pm", "list", *_, part]:
                return Result("".join(f"package:{name}\n" for name in sorted(packages) if part in name).encode())
            case ["pm", "clear", package]:
                if package not in packages:
                    return Result(b"Failed\n", 1)
                self.phone.wipe(package)
                return Result(b"Success\n")
        return None
