"""Android devices over adb: touches, keys and text in; screenshots and the uiautomator tree out."""
