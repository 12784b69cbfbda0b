import pino from 'pino';

/** The parts of pino's logger that this project uses. ERROR wakes the person on call; no secret, token, ticket or code is logged. */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

type Output = { write(line: string): void; flushSync(): void };

/** Written in the background, so that a slow disk does not hold up a request. */
function standardOutput(): Output {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: 16_000,
    periodicFlush: 250,
    // Of strings it counts the bytes of all that wait with every line, which makes one string of them each time.
    contentMode: 'buffer',
  });
  return {
    write: (line) => output.write(Buffer.from(line) as unknown as string),
    flushSync: () => output.flushSync(),
  };
}

/**
 * JSON lines, on standard output. Callers name each field that they log and none of them is a secret, which a test watches; a filter over
 * every line would cost half a line.
 */
export function createLog(processName: string, level: string, output: Output = standardOutput()): Log {
  const base = { process: processName, pid: process.pid };
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, output as pino.DestinationStream);
}
