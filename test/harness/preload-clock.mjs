// Preloaded into a process of ours (NODE_OPTIONS=--import): its wall clock is off by the milliseconds in the file
// named by MOVED_CLOCK, and follows the file. `performance.now()` goes on as it is, as with a real jump.
import { readFileSync } from 'node:fs';

const LOOK_EVERY_MS = 10;
const Real = Date;
const file = String(process.env.MOVED_CLOCK);
const read = () => Number(readFileSync(file).readBigInt64LE());
let movedMs = read();

class MovedDate extends Real {
  /** @param {unknown[]} given as the real constructor takes them */
  constructor(...given) {
    if (given.length === 0) super(Real.now() + movedMs);
    else super(.../** @type {[number]} */ (given));
  }
  /** @override */
  static now() {
    return Real.now() + movedMs;
  }
}
globalThis.Date = /** @type {DateConstructor} */ (/** @type {unknown} */ (MovedDate));

setInterval(() => {
  if (read() === movedMs) return;
  movedMs = read();
  // For the test: from now on this process lives at another time.
  process.stdout.write(`${JSON.stringify({ msg: 'the clock was moved', by: movedMs })}\n`);
}, LOOK_EVERY_MS).unref();
