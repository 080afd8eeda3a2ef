// Brings the animations of a frame to their end, endless ones to their start; returns whether it has loaded, with fonts.
() => {
  for (const animation of document.getAnimations()) {
    try {
      animation.finish();
    } catch {
      animation.cancel(); // an endless one cannot be finished
    }
  }
  return document.readyState === "complete" && document.fonts.status === "loaded";
}
