import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { chown, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import type { Tools } from '../tools.js';

const PASSWORD = 'torture';
/** Processes are killed, not machines, so a commit need not reach the disk to survive. */
const SETTINGS = ['fsync=off', 'max_connections=250', 'wal_level=replica', 'max_wal_senders=2'];
const copy = (from: string, to: string) => promisify(execFile)('cp', ['-a', from, to]);

/** The Postgres server of a run, on a fixed port. */
export class PostgresNode {
  #engine: RunningEngine;
  readonly #folder: string;

  private constructor(
    readonly tools: Tools,
    folder: string,
    engine: RunningEngine,
  ) {
    this.#folder = folder;
    this.#engine = engine;
  }

  static async start(tools: Tools, folder: string): Promise<PostgresNode> {
    const directory = join(folder, 'postgres');
    const port = await tools.freePort();
    const engine = await tools.startPostgres({ dataDir: directory, password: PASSWORD, port, extraArgs: SETTINGS });
    return new PostgresNode(tools, directory, engine);
  }

  get url(): string {
    return this.#engine.url;
  }

  get port(): number {
    return this.#engine.port;
  }

  /** Starts the server again on the data that its folder has. */
  async start(): Promise<void> {
    const { port } = this.#engine;
    this.#engine = await this.tools.startPostgres({
      dataDir: this.#folder,
      password: PASSWORD,
      port,
      extraArgs: SETTINGS,
    });
  }

  /** An immediate shutdown: the server recovers from its log when it is started again. */
  async crash(): Promise<void> {
    this.#engine.kill('SIGQUIT');
    await this.#engine.exited;
  }

  /** Stops the server and its backends where they are. */
  freeze(): void {
    this.#signalAll('SIGSTOP');
  }

  resume(): void {
    this.#signalAll('SIGCONT');
  }

  /** A copy of the data as a base backup makes it, while the server runs. */
  async backUp(to: string): Promise<void> {
    await rm(to, { recursive: true, force: true });
    const client = await this.connect();
    try {
      await client.query(`select pg_backup_start('torture', true)`);
      await copy(this.#folder, to);
      const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
      await rm(join(to, 'pg_wal'), { recursive: true });
      await copy(join(this.#folder, 'pg_wal'), join(to, 'pg_wal'));
      await rm(join(to, 'postmaster.pid'), { force: true });
      const label = join(to, 'backup_label');
      await writeFile(label, String(rows[0]?.labelfile), { mode: 0o600 });
      // As root, Postgres runs as another user.
      const { uid, gid } = await stat(this.#folder);
      await chown(label, uid, gid);
    } finally {
      await client.end();
    }
  }

  /** The status of each reservation, and `product user` of each place. */
  async promises(): Promise<{ redemptions: Record<string, string>; places: string[] }> {
    const client = await this.connect();
    try {
      const reservations = await client.query<{ id: string; status: string }>(
        'select redemption_id::text as id, status from redemptions',
      );
      const places = await client.query<{ place: string }>(
        `select product_id || ' ' || user_id as place from waiting_tickets join campaigns using (campaign_id)`,
      );
      return {
        redemptions: Object.fromEntries(reservations.rows.map(({ id, status }) => [id, status])),
        places: places.rows.map(({ place }) => place),
      };
    } finally {
      await client.end();
    }
  }

  /** Puts a backup in the place of the data. The server must not run. */
  async restore(from: string): Promise<void> {
    await rm(this.#folder, { recursive: true });
    await copy(from, this.#folder);
  }

  async connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.url, connectionTimeoutMillis: 10_000 });
    client.on('error', () => {
      // The query that fails reports it.
    });
    await client.connect();
    return client;
  }

  async stop(): Promise<void> {
    this.resume();
    await this.#engine.stop(10_000);
  }

  #signalAll(signal: NodeJS.Signals): void {
    const { pid } = this.#engine;
    this.#engine.kill(signal);
    for (const child of childrenOf(pid)) {
      try {
        process.kill(child, signal);
      } catch {
        // The backend ended meanwhile.
      }
    }
  }
}

/** Direct children of a process; none where there is no /proc. */
function childrenOf(pid: number): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
