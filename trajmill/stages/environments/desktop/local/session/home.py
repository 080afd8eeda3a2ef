"""Makes the home folder of a session; its settings switch off animations and random differences between sessions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

_GTK = """[Settings]
gtk-cursor-blink=0
gtk-enable-animations=0
gtk-font-name=DejaVu Sans 10
gtk-recent-files-enabled=0
"""
_OPENBOX = """<?xml version="1.0"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
  <placement><policy>Smart</policy><center>yes</center></placement>
  <theme><name>Clearlooks</name><animateIconify>no</animateIconify></theme>
  <desktops><number>1</number></desktops>
  <keyboard>
    <keybind key="A-F4"><action name="Close"/></keybind>
    <keybind key="A-Tab"><action name="NextWindow"/></keybind>
  </keyboard>
  <mouse>
    <dragThreshold>4</dragThreshold>
    <context name="Titlebar">
      <mousebind button="Left" action="Drag"><action name="Move"/></mousebind>
      <mousebind button="Left" action="DoubleClick"><action name="ToggleMaximize"/></mousebind>
      <mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
    </context>
    <context name="Client">
      <mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
      <mousebind button="Middle" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
      <mousebind button="Right" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
    </context>
    <context name="Close">
      <mousebind button="Left" action="Click"><action name="Close"/></mousebind>
    </context>
    <context name="Maximize">
      <mousebind button="Left" action="Click"><action name="ToggleMaximize"/></mousebind>
    </context>
    <context name="Iconify">
      <mousebind button="Left" action="Click"><action name="Iconify"/></mousebind>
    </context>
  </mouse>
</openbox_config>
"""
_OFFICE_SETTINGS = (
    ("/org.openoffice.Office.Common/Misc", "FirstRun", "false"),
    ("/org.openoffice.Office.Common/Misc", "ShowTipOfTheDay", "false"),
    ("/org.openoffice.Setup/Product", "ooSetupLastVersion", "99.9"),
    ("/org.openoffice.Setup/Product", "LastTimeDonateShown", "4102444800"),
    ("/org.openoffice.Setup/Product", "LastTimeGetInvolvedShown", "4102444800"),
    ("/org.openoffice.Office.Common/Save/Document", "WarnAlienFormat", "false"),
    ("/org.openoffice.Office.Recovery/AutoSave", "Enabled", "false"),
)
_OFFICE_ITEM = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>'
_OFFICE = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    + "".join(_OFFICE_ITEM.format(*setting) for setting in _OFFICE_SETTINGS)
    + "</oor:items>"
)
_FILES = {
    "gtk-3.0/settings.ini": _GTK,
    "openbox/rc.xml": _OPENBOX,
    "libreoffice/4/user/registrymodifications.xcu": _OFFICE,
}
CREATED = 1_767_225_600
"""Modification time of all files in a fresh home, in seconds since 1970; programs show it."""
_FOLDERS = ("Desktop", "Documents", "Downloads", ".cache", ".local/share")


class SessionFolders(NamedTuple):
    """The folders of one session."""

    folder: Path
    """The home folder of the programs."""
    config: Path
    """Settings of programs. Each session has another path, because LibreOffice opens a file in another running
    LibreOffice with the same path of settings."""
    runtime: Path
    """Sockets of the session, readable only by its user."""
    screen: Path
    """The X server's frame buffer file."""


def make_home(user: Path, folder: Path) -> SessionFolders:
    """Make a fresh home at `user` and the other folders under `folder`; their old content is removed."""
    home = SessionFolders(user, folder / "config", folder / "run", folder / "screen")
    for path in home:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    home.runtime.chmod(0o700)
    (home.folder / ".config").symlink_to(home.config)
    for name in _FOLDERS:
        (home.folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        path = home.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in (*home.folder.rglob("*"), *home.config.rglob("*")):
        os.utime(path, (CREATED, CREATED))
    return home


def variables(home: SessionFolders, display: str, session_bus: str, inherited: dict[str, str]) -> dict[str, str]:
    """The environment variables of the programs of a session.

    Args:
        home: its folders.
        display: of its X server, e.g. `:7`.
        session_bus: address of its D-Bus daemon.
        inherited: the variables of this process; only the search path is passed on.
    """
    return {
        "PATH": inherited.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home.folder),
        "XDG_CONFIG_HOME": str(home.config),
        "XDG_CACHE_HOME": str(home.folder / ".cache"),
        "XDG_DATA_HOME": str(home.folder / ".local/share"),
        "XDG_RUNTIME_DIR": str(home.runtime),
        "TMPDIR": str(home.runtime),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "DISPLAY": display,
        "DBUS_SESSION_BUS_ADDRESS": session_bus,
        "GSETTINGS_BACKEND": "memory",
        "GTK_MODULES": "gail:atk-bridge",
        "NO_AT_BRIDGE": "0",
        "SAL_USE_VCLPLUGIN": "gtk3",
        "GIO_USE_VFS": "local",
    }
