"""Controls one device over adb: commands, apps, touches, keys and text."""
