"""Android devices over adb: sends touches, keys and text, and reads screenshots and uiautomator's tree."""
