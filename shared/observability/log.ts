import pino from 'pino';

/**
 * The methods of pino's logger that this project uses. ERROR alerts the person on call. Secrets, tokens, tickets and
 * codes are never logged.
 */
export type Log = Pick<pino.Logger, (typeof LEVELS)[number]>;

const LEVELS = ['debug', 'info', 'warn', 'error', 'fatal'] as const;

/** Returns a log that writes these fields in every line, before the fields of the line. */
export function withFields(log: Log, fields: Readonly<Record<string, unknown>>): Log {
  const levelOf =
    (level: (typeof LEVELS)[number]) =>
    (first: unknown, ...others: unknown[]) => {
      const write = log[level].bind(log) as (...all: unknown[]) => void;
      if (typeof first === 'string') write(fields, first);
      else write({ ...fields, ...(first as object) }, ...others);
    };
  return Object.fromEntries(LEVELS.map((level) => [level, levelOf(level)])) as unknown as Log;
}

/** How long a line may wait, ms. */
const FLUSH_MS = 250;

type Output = { write(line: string): void; flushSync(): void };

/** Writes in the background, so that a slow disk does not delay requests. */
function standardOutput(): Output {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: 16_000,
    // With strings, pino would join all waiting lines for each new line to count their bytes.
    contentMode: 'buffer',
  });
  return flushed(output);
}

/**
 * Flushes what was written, after `FLUSH_MS`. Pino's own interval writes nothing to the disk of an idle process four
 * times a second, each time in another thread.
 */
export function flushed(output: ReturnType<typeof pino.destination>): Output {
  let [waiting, isScheduled] = [0, false];
  const flush = () => {
    isScheduled = false;
    output.flush();
  };
  const flushSoon = () => {
    if (isScheduled) return;
    isScheduled = true;
    setTimeout(flush, FLUSH_MS).unref();
  };
  output.on('write', (bytes: number) => {
    waiting -= bytes;
  });
  // A flush during a write does nothing.
  output.on('drain', () => {
    if (waiting > 0) flushSoon();
  });
  return {
    write(line) {
      const bytes = Buffer.from(line);
      waiting += bytes.length;
      output.write(bytes as unknown as string);
      flushSoon();
    },
    flushSync() {
      output.flushSync();
      waiting = 0;
    },
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

/** Opens the log of a process. The library for `pretty` is loaded only then. */
export async function openLog(
  processName: string,
  { logLevel, logFormat }: { logLevel: string; logFormat: 'json' | 'pretty' },
): Promise<Log> {
  return logFormat === 'json'
    ? createLog(processName, logLevel)
    : createLog(processName, logLevel, await prettyOutput(process.stdout));
}

/** Lines for people: time, level, process, text, then the fields. */
export async function prettyOutput(stream: NodeJS.WritableStream): Promise<Output> {
  const { prettyFactory, isColorSupported } = (await import('pino-pretty')).default;
  const format = prettyFactory({
    colorize: isColorSupported,
    translateTime: 'HH:MM:ss.l',
    ignore: 'pid,process',
    messageFormat: '{process}: {msg}',
  });
  return { write: (line) => void stream.write(format(line)), flushSync: () => {} };
}
