// Whether a frame has loaded and its fonts are there; brings its animations to their end, endless ones to their start.
() => {
  for (const animation of document.getAnimations()) {
    try {
      animation.finish();
    } catch {
      animation.cancel(); // an endless one has no end to go to
    }
  }
  return document.readyState === "complete" && document.fonts.status === "loaded";
}
