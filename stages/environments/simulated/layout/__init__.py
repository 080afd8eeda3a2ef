"""What stands where on a screen: from the widgets of a page to a scene and an accessibility tree."""
