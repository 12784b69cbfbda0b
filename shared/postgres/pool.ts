import pg from 'pg';
import { EngineUnavailable } from '../errors/faults.js';

/**
 * The limit between two statements of a transaction, in which there is at most one call to Redis. Without it, a worker
 * that is frozen or disconnected would keep the lock on the journal's cursor.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
/** Makes Postgres detect dead clients, so that their locks are released. By default, it would take two hours. */
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

/** Runs statements: the pool, or the connection of a transaction. */
export type Queryable = {
  query<Row extends pg.QueryResultRow>(sql: string | Prepared, values?: unknown[]): Promise<pg.QueryResult<Row>>;
};

/** A statement that each connection prepares once, under the given name. */
export type Prepared = { name: string; text: string; values: unknown[] };

/**
 * A bounded pool of connections to Postgres. Every statement has a time limit in the client and in Postgres. A
 * connection that failed in any way is closed instead of reused, so a hanging connection cannot affect a second
 * statement.
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
    // Emitted when Postgres closes an idle connection. The next query opens a new one.
    this.#pool.on('error', options.onError);
    // Emitted when a connection in use breaks. Its query reports the error, but without a listener the event would end
    // the process.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  /**
   * @throws EngineUnavailable when Postgres is away or too slow; pg.DatabaseError when Postgres rejects the statement
   */
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
   * Runs `work` in one transaction. Commits when `work` returns, and rolls back when it throws.
   * @param first statements without values that are sent together with `begin`, in one round trip; each sees what was
   *   committed before that statement began, not before the transaction began
   * @param work receives the results of these statements
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
      // Closing the connection rolls back, even if a `rollback` could no longer be sent.
      client.release(true);
      throw asFault(error);
    }
  }

  /** Provides a connection for reading row by row. `use` must not use it after it returns. */
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

/** SQLSTATE classes of temporary errors that Postgres itself reports: resources, shutdown, system, rollback. */
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

/**
 * Whether Postgres rejected the rows themselves: by a constraint (class 23), or because a value does not fit its column
 * (class 22).
 */
export function isRefusal(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? '');
}
