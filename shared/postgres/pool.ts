import pg from 'pg';
import { EngineUnavailable } from '../errors/faults.js';

/**
 * Between two statements of a transaction lies a call to Redis at most. A worker that stands still for longer, frozen or cut
 * off, would keep the journal's cursor from all others.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
/** The same for a lock of a connection whose other end is gone without a word: Postgres would notice after two hours. */
const NOTICE_DEAD_CLIENTS = '-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3';

export type PoolOptions = {
  url: string;
  /** Shown in pg_stat_activity. */
  name: string;
  connections: number;
  statementMs: number;
  connectMs: number;
  onError: (error: Error) => void;
};

/** What runs a statement: the pool, or the connection of a transaction. */
export type Queryable = {
  query<Row extends pg.QueryResultRow>(sql: string | Prepared, values?: unknown[]): Promise<pg.QueryResult<Row>>;
};

/** A statement that each connection prepares once, under its name. */
export type Prepared = { name: string; text: string; values: unknown[] };

/**
 * Postgres as the processes use it: a bounded pool in which every statement has a deadline on both sides. A connection
 * that failed in any way is closed, not returned, so one that hangs cannot be met twice.
 */
export class Database {
  readonly #pool: pg.Pool;

  constructor(options: PoolOptions) {
    this.#pool = new pg.Pool({
      connectionString: options.url,
      application_name: options.name,
      max: options.connections,
      connectionTimeoutMillis: options.connectMs,
      statement_timeout: options.statementMs,
      query_timeout: options.statementMs + 200,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
      options: NOTICE_DEAD_CLIENTS,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
    });
    // An idle connection that Postgres closes; the next query makes a new one.
    this.#pool.on('error', options.onError);
    // One that breaks while it is used: its query says so; without a listener it would end the process.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** @throws EngineUnavailable when Postgres is away or too slow; pg.DatabaseError when it refuses the statement */
  async query<Row extends pg.QueryResultRow>(
    sql: string | Prepared,
    values: unknown[] = [],
  ): Promise<pg.QueryResult<Row>> {
    try {
      return await (typeof sql === 'string' ? this.#pool.query<Row>(sql, values) : this.#pool.query<Row>(sql));
    } catch (error) {
      throw asFault(error);
    }
  }

  /**
   * Runs `work` in one transaction: committed when it returns, rolled back when it throws.
   * @param first statements without values that are sent together with `begin`, for one round trip; each reads what was
   *   committed before it began, not before the transaction began
   * @param work takes the results of these statements
   */
  async transaction<Value>(
    work: (client: Queryable, results: pg.QueryResult[]) => Promise<Value>,
    first: readonly string[] = [],
  ): Promise<Value> {
    let client: pg.PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw asFault(error);
    }
    try {
      const results: unknown = await client.query(['begin', ...first].join('; '));
      const value = await work(client, Array.isArray(results) ? results.slice(1) : []);
      await client.query('commit');
      client.release();
      return value;
    } catch (error) {
      // Closing the connection rolls back, also when the network no longer carries a `rollback`.
      client.release(true);
      throw asFault(error);
    }
  }

  /** A connection of its own for what is read row by row; `use` must finish with it before it returns. */
  async withClient<Value>(use: (client: pg.PoolClient) => Promise<Value>): Promise<Value> {
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw asFault(error);
    });
    try {
      const value = await use(client);
      client.release();
      return value;
    } catch (error) {
      client.release(true);
      throw asFault(error);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/** SQLSTATE classes that say "not now" although Postgres itself answered: resources, shutdown, system, rollback. */
const NOT_NOW = /^(08|53|57|58|40|55P03|25006|XX)/;

function asFault(error: unknown): unknown {
  if (error instanceof EngineUnavailable) return error;
  if (error instanceof pg.DatabaseError && error.code && !NOT_NOW.test(error.code)) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof pg.DatabaseError || isConnectionTrouble(error)) {
    return new EngineUnavailable('postgres', message, { cause: error });
  }
  return error;
}

function isConnectionTrouble(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return (
    /^(E[A-Z]+)$/.test(code) ||
    /timeout|terminated|Connection ended|not queryable|connection error|Client has encountered/i.test(error.message)
  );
}

/** Postgres refused the rows themselves: a constraint (class 23) or a value that no column takes (class 22). */
export function isRefusal(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? '');
}
