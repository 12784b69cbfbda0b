// The types of postgres.mjs, by hand: scripts/ is plain JavaScript because it runs before TypeScript is installed.
import type { RunningEngine } from './redis.mjs';

export interface PostgresOptions {
  /** Kept between starts; the cluster is created in it on first use. One server at a time. */
  readonly dataDir: string;
  /** Exactly this port; a free one when not given. */
  readonly port?: number;
  /** The superuser's. A new one is made, and set, when not given. */
  readonly password?: string;
  /** Created when missing ("doorbuster"). */
  readonly database?: string;
  /** Settings as `name=value`. With `fsync=off` among them the cluster is created without syncing, too. */
  readonly extraArgs?: readonly string[];
  /** `<dataDir>.log` when not given. */
  readonly logFile?: string;
  readonly say?: (note: string) => void;
  /** How long recovery may take (120 s). */
  readonly readyLimitMs?: number;
}

export function startPostgres(options: PostgresOptions): Promise<RunningEngine>;
