import pino from 'pino';

/**
 * The methods of pino's logger that this project uses. ERROR alerts the person on call. Secrets, tokens, tickets and
 * codes are never logged.
 */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

type Output = { write(line: string): void; flushSync(): void };

/** Writes in the background, so that a slow disk does not delay requests. */
function standardOutput(): Output {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: 16_000,
    periodicFlush: 250,
    // With strings, pino would join all waiting lines for each new line to count their bytes.
    contentMode: 'buffer',
  });
  return {
    write: (line) => output.write(Buffer.from(line) as unknown as string),
    flushSync: () => output.flushSync(),
  };
}

/**
 * Creates a log that writes JSON lines to standard output. Secrets are not filtered, because a filter costs half as
 * much as writing the line. Callers name each field that they log, and a test checks that no field is a secret.
 */
export function createLog(processName: string, level: string, output: Output = standardOutput()): Log {
  const base = { process: processName, pid: process.pid };
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, output as pino.DestinationStream);
}
