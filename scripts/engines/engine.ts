/**
 * An engine that redis.mjs or postgres.mjs has started. This file has only types, so that the build of torture/ can
 * import it.
 */
export type RunningEngine = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Settles when the process has ended, for whatever reason. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Sends a signal to the server (SIGKILL when none is named) and does not wait. */
  kill(signal?: NodeJS.Signals): void;
  /** Stops the engine cleanly, and by force after the limit (Redis 15 s, Postgres 20 s). The data stay. */
  stop(limitMs?: number): Promise<void>;
  /** Of Redis: this process may end before it. */
  unref?(): void;
};

type EngineOptions = {
  /** Kept between starts; created when missing. One server at a time. */
  readonly dataDir: string;
  /** The port. Default: a free one. */
  readonly port?: number;
  /** Receives progress messages for a terminal. */
  readonly say?: (note: string) => void;
  /** Limit of the start, including loading or recovery (120 s). */
  readonly readyLimitMs?: number;
};

export type RedisOptions = EngineOptions & {
  /** redis-server or valkey-server. Default: found, or installed. */
  readonly binary?: string;
  readonly password?: string;
  /** Appended to the command line, for example `['--appendfsync', 'no']`. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>/redis.log` when not given. */
  readonly logFile?: string;
};

/** Where a server of a cluster is, and its id there. */
export type ClusterPlace = { id: string; folder: string; host: string; port: number; busPort: number };

export type ClusterOptions = Pick<EngineOptions, 'dataDir' | 'say'> & {
  readonly primaries: number;
  /** Of each primary. */
  readonly replicas: number;
  /** A replica takes over when the others have not reached its primary for so long. */
  readonly nodeTimeoutMs: number;
  /** For each server. */
  readonly extraArgs?: readonly string[];
};

/** A server of a cluster, with the first and last slot that it had at the start, itself or as a replica. */
type ClusterServer = {
  engine: RunningEngine;
  readonly from: number;
  readonly to: number;
  readonly replica: boolean;
  /** After it was killed: on its data, its port and its place in the cluster. */
  startAgain(): Promise<void>;
};

/** A cluster that redis-cluster.mjs has started: primaries first. */
export type RunningCluster = {
  /** For REDIS_URL. */
  readonly url: string;
  readonly nodes: readonly ClusterServer[];
  stop(): Promise<void>;
};

export type PostgresOptions = EngineOptions & {
  /** The superuser's password. Default: a new one is generated and set. */
  readonly password?: string;
  /** Created when missing ("doorbuster"). */
  readonly database?: string;
  /** Settings as `name=value`. With `fsync=off` among them the cluster is created without syncing, too. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>.log` when not given. */
  readonly logFile?: string;
};

export type PgBouncerOptions = {
  readonly binary: string;
  /** For its settings and its log; created when missing. */
  readonly directory: string;
  /** URL of a superuser's connection to the Postgres behind it. */
  readonly target: string;
  /** Connections to Postgres per database (10). */
  readonly connections?: number;
  /** The port. Default: a free one. */
  readonly port?: number;
};

export type KafkaOptions = Omit<EngineOptions, 'say'> & {
  /** The folder from `findKafka`. */
  readonly libraries: string;
  /** The port of the controller. Default: a free one. */
  readonly controllerPort?: number;
  /** TLS and a user: `keystore` and `truststore` are PKCS #12 files. Default: neither. */
  readonly sasl?: {
    readonly mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512';
    readonly username: string;
    readonly password: string;
    readonly keystore: string;
    readonly truststore: string;
    readonly storePassword: string;
  };
  /** Further settings of the broker. */
  readonly properties?: Readonly<Record<string, string>>;
};

/** A broker that kafka.mjs has started. */
export type RunningKafka = Omit<RunningEngine, 'url'> & {
  /** For KAFKA_BROKERS. */
  readonly brokers: string;
  readonly controllerPort: number;
};
