import pino from 'pino';

/** The parts of pino's logger that this project uses. ERROR wakes somebody; no secret, token, ticket or code is logged. */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'> & { child(bindings: object): Log };

/** As pino's own `isoTime`, made once for all lines of a millisecond. */
function isoTime(): string {
  const now = Date.now();
  if (now !== timedMs) {
    timedMs = now;
    timed = `,"time":"${new Date(now).toISOString()}"`;
  }
  return timed;
}
let timedMs = 0;
let timed = '';

/**
 * JSON lines on standard output, written in the background so that a slow disk does not hold up a request. Callers name each
 * field that they log and none of them is a secret, which a test watches; a filter over every line would cost half a line.
 */
export function createLog(processName: string, level: string): Log {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: 16_000,
    periodicFlush: 250,
    // Of strings it counts the bytes of all that wait with every line, which makes one string of them each time.
    contentMode: 'buffer',
  });
  return pino(
    {
      level,
      base: { process: processName, pid: process.pid },
      timestamp: isoTime,
    },
    {
      write: (line) => output.write(Buffer.from(line) as unknown as string),
      // Called by pino after a fatal line.
      flushSync: () => output.flushSync(),
    } as pino.DestinationStream,
  );
}
