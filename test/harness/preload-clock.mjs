// Preloaded into a process of ours (NODE_OPTIONS=--import): its wall clock is off by the milliseconds that stand in the file
// named by MOVED_CLOCK, and follows the file. `performance.now()` goes on as it is, as with a real jump.
import { readFileSync } from 'node:fs';

const LOOK_EVERY_MS = 10;
const Real = Date;
const file = String(process.env.MOVED_CLOCK);
const read = () => Number(readFileSync(file).readBigInt64LE());
let movedMs = read();

globalThis.Date = class MovedDate extends Real {
  constructor(...given) {
    if (given.length === 0) super(Real.now() + movedMs);
    else super(...given);
  }
  static now() {
    return Real.now() + movedMs;
  }
};

setInterval(() => {
  if (read() === movedMs) return;
  movedMs = read();
  // For the test: from now on this process lives at another time.
  process.stdout.write(`${JSON.stringify({ msg: 'the clock was moved', by: movedMs })}\n`);
}, LOOK_EVERY_MS).unref();
