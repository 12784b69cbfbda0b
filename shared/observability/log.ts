import pino from 'pino';

/** The parts of pino's logger that this project uses. ERROR wakes somebody; no secret, token, ticket or code is logged. */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'> & {
  /** As `info`, at a third of the cost, for lines that every checkout writes: their values have no character that JSON would escape. */
  plain(fields: PlainFields, message: string): void;
};
/** undefined = left out */
export type PlainFields = Readonly<Record<string, string | undefined>>;

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
  const logger = pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, output as pino.DestinationStream);
  const isWritten = logger.isLevelEnabled('info');
  const bindings = JSON.stringify(base).slice(1, -1);
  return Object.assign(logger, {
    plain(fields: PlainFields, message: string): void {
      if (isWritten) output.write(plainLine(fields, message, bindings));
    },
  });
}

/** Byte for byte what pino would write. */
function plainLine(fields: PlainFields, message: string, bindings: string): string {
  let line = `{"level":30${pino.stdTimeFunctions.isoTime()},${bindings}`;
  for (const name in fields) {
    const value = fields[name];
    if (value !== undefined) line += `,"${name}":"${value}"`;
  }
  return `${line},"msg":"${message}"}\n`;
}
