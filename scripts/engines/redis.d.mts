// The types of redis.mjs, by hand: scripts/ is plain JavaScript because it runs before TypeScript is installed.

export interface RunningEngine {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Settles when the process has ended, however it ended. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Sends a signal to the server (SIGKILL when none is named) and does not wait. */
  kill(signal?: NodeJS.Signals): void;
  /** Ends it in good order, by force after the limit (15 s). The data stay. */
  stop(limitMs?: number): Promise<void>;
}

export interface RedisOptions {
  /** Kept between starts; created when missing. One server at a time. */
  readonly dataDir: string;
  /** redis-server or valkey-server; found, or got, when not given. */
  readonly binary?: string;
  /** Exactly this port; a free one when not given. */
  readonly port?: number;
  readonly password?: string;
  /** Appended to the command line, for example `['--appendfsync', 'no']`. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>/redis.log` when not given. */
  readonly logFile?: string;
  readonly say?: (note: string) => void;
  /** How long loading may take (120 s). */
  readonly readyLimitMs?: number;
}

export function findRedisServer(options?: { say?: (note: string) => void; root?: string }): Promise<string>;
export function startRedis(options: RedisOptions): Promise<RunningEngine>;
