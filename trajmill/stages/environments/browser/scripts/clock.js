// Runs before a page's own scripts, called with the time at which the page starts. Dates, timers and animation frames
// stand still until window.__advanceClock(milliseconds) is called, which fires what is due in order.
(epoch) => {
  const RealDate = Date, frame = 16, waiting = new Map();
  let now = 0, lastId = 0;
  function FrozenDate(...given) {
    if (!new.target) return new RealDate(epoch + now).toString();
    return Reflect.construct(RealDate, given.length ? given : [epoch + now], new.target);
  }
  FrozenDate.prototype = RealDate.prototype;
  FrozenDate.prototype.constructor = FrozenDate;
  Object.assign(FrozenDate, { now: () => epoch + now, parse: RealDate.parse, UTC: RealDate.UTC });
  window.Date = FrozenDate;
  performance.now = () => now;

  const wait = (at, call, every = 0) => {
    waiting.set(++lastId, { at, call, every });
    return lastId;
  };
  const milliseconds = (delay) => Math.max(1, Number(delay) || 0);
  const caller = (work, given) => () => (typeof work === "function" ? work(...given) : (0, eval)(String(work)));
  const forget = (id) => void waiting.delete(id);
  window.setTimeout = (work, delay, ...given) => wait(now + milliseconds(delay), caller(work, given));
  window.setInterval = (work, delay, ...given) =>
    wait(now + milliseconds(delay), caller(work, given), milliseconds(delay));
  window.requestAnimationFrame = (work) => wait((Math.floor(now / frame) + 1) * frame, () => work(now));
  window.requestIdleCallback = (work) => wait(now + 1, () => work({ didTimeout: false, timeRemaining: () => 10 }));
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = window.cancelIdleCallback = forget;

  const due = (end) => {
    let first = 0;
    for (const [id, one] of waiting) if (one.at <= end && (!first || one.at < waiting.get(first).at)) first = id;
    return first;
  };
  const advance = async (duration) => {
    const end = now + duration;
    for (let id = due(end); id; id = due(end)) {
      const one = waiting.get(id);
      now = Math.max(now, one.at);
      if (one.every) one.at += one.every;
      else waiting.delete(id);
      try {
        one.call();
      } catch (error) {
        reportError(error);
      }
      await null; // what has been promised comes before the next timer
    }
    now = end;
  };
  Object.defineProperty(window, "__advanceClock", { value: advance });
}
