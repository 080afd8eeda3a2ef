// Runs before a page's own scripts, called with a seed. Math.random then gives the same numbers for the same seed.
(seed) => {
  let state = seed >>> 0;
  // Mulberry32: 32 bits of state are enough for a page, and it is a few operations.
  Math.random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
