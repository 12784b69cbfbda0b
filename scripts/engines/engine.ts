/** An engine that redis.mjs or postgres.mjs has started. Types alone, so that the build of torture/ can import them. */
export type RunningEngine = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Settles when the process has ended, however it ended. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Sends a signal to the server (SIGKILL when none is named) and does not wait. */
  kill(signal?: NodeJS.Signals): void;
  /** Ends it in good order, by force after the limit (Redis 15 s, Postgres 20 s). The data stay. */
  stop(limitMs?: number): Promise<void>;
};

type EngineOptions = {
  /** Kept between starts; created when missing. One server at a time. */
  readonly dataDir: string;
  /** Exactly this port; a free one when not given. */
  readonly port?: number;
  /** Notes on the progress, for a terminal. */
  readonly say?: (note: string) => void;
  /** How long the start may take, with loading or recovery (120 s). */
  readonly readyLimitMs?: number;
};

export type RedisOptions = EngineOptions & {
  /** redis-server or valkey-server; found, or installed, when not given. */
  readonly binary?: string;
  readonly password?: string;
  /** Appended to the command line, for example `['--appendfsync', 'no']`. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>/redis.log` when not given. */
  readonly logFile?: string;
};

export type PostgresOptions = EngineOptions & {
  /** The superuser's. A new one is made, and set, when not given. */
  readonly password?: string;
  /** Created when missing ("doorbuster"). */
  readonly database?: string;
  /** Settings as `name=value`. With `fsync=off` among them the cluster is created without syncing, too. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>.log` when not given. */
  readonly logFile?: string;
};
