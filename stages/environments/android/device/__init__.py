"""One device over adb: commands, apps, touches, keys and text."""
