import { ConfigError, type EngineUrls, readEngineUrls } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { EngineUnavailable, Refused } from '../shared/errors/faults.js';
import { Database } from '../shared/postgres/pool.js';

/** Where a command prints. */
export type Terminal = {
  print(line: string): void;
  warn(line: string): void;
  /** What is printed before the reason if the command fails; '' = that it failed, or refused. */
  failed: string;
};

export type Command<Options> = {
  usage: string;
  /** @returns null if the arguments are not those of the usage @throws TypeError, as parseArgs does */
  parse(args: string[]): Options | null;
  /** @returns the exit code @throws Refused, which ends with exit code 1; any other error ends with 2 */
  run(options: Options, terminal: Terminal): Promise<number>;
};

/** Runs a command of operators with the arguments of this process, and ends the process. */
export async function runCommand<Options>(command: Command<Options>): Promise<never> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(command.usage);
    process.exit(0);
  }
  const options = optionsOf(command, args);
  if (options === null) {
    process.stderr.write(command.usage);
    process.exit(2);
  }
  // A reader that ends early, as `head` does, does not make the work a success.
  process.stdout.on('error', () => process.exit(2));
  const terminal: Terminal = {
    print: (line) => void process.stdout.write(`${line}\n`),
    warn: (line) => void process.stderr.write(`${line}\n`),
    failed: '',
  };
  // Drivers may have timers that are left, for example for each COPY until its time limit.
  process.exit(await exitCodeOf(command, options, terminal));
}

function optionsOf<Options>({ parse }: Command<Options>, args: string[]): Options | null {
  try {
    return parse(args);
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`);
    return null;
  }
}

async function exitCodeOf<Options>({ run }: Command<Options>, options: Options, terminal: Terminal): Promise<number> {
  try {
    return await run(options, terminal);
  } catch (error) {
    const isRefusal = error instanceof Refused;
    terminal.warn(`${terminal.failed || (isRefusal ? 'refused' : 'it failed')}: ${reasonOf(error)}`);
    return isRefusal ? 1 : 2;
  }
}

/** Why something failed, with the engine if one was unavailable. */
export function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return error instanceof EngineUnavailable ? `${error.engine}: ${reason}` : reason;
}

/** The addresses of Redis and Postgres. @throws Error when the environment lacks them */
export function engineUrls(): EngineUrls {
  try {
    return readEngineUrls();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new Error(`${error.message}\nor start a service with \`npm start\``, { cause: error });
  }
}

/** A pool to Postgres for a command, which the caller closes. @param statementMs the time limit of a statement */
export function connectDatabase(command: string, url: string, statementMs: number, connections = 4): Database {
  const name = `doorbuster-${command}`;
  return new Database({ url, name, connections, statementMs, connectMs: LIMITS.commands.connectMs, onError: () => {} });
}
