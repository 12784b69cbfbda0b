import pg from 'pg';
import { EngineUnavailable } from '../errors/faults.js';

/**
 * The limit between two statements of a transaction, in which there is at most one call to Redis. Without it, a worker
 * that is frozen or disconnected would keep the lock on the journal's cursor.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;

/**
 * Limits a new connection, unless a pooler serves it. The process id that the client was given is that of its server
 * process, except behind a pooler, which makes one up. A pooler in transaction mode assigns each transaction to any
 * connection, so settings of a session would reach other clients. The keepalives make Postgres detect dead clients, so
 * that their locks are released. By default, it would take two hours.
 */
const LIMIT_SESSION = `select case when pg_backend_pid() = $1 then concat(
  set_config('statement_timeout', $2, false), set_config('idle_in_transaction_session_timeout', $3, false),
  set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
  set_config('tcp_keepalives_count', '3', false)) end as direct`;

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

/** A statement that each connection prepares once, under the given name. Behind a pooler, it has no name. */
export type Prepared = { name: string; text: string; values: unknown[] };

/**
 * A bounded pool of connections to Postgres, or to a pooler such as PgBouncer, which it detects (decision 42). Every
 * statement has a time limit in the client and in Postgres. A connection that failed in any way is closed instead of
 * reused, so a hanging connection cannot affect a second statement.
 *
 * Behind a pooler, every statement runs in a transaction, because only a transaction keeps one connection of the pooler
 * and with it the limits.
 */
export class Database {
  readonly #pool: pg.Pool;
  readonly #statementMs: number;
  /** Whether a pooler serves the connections; null before the first one. */
  #behindPooler: boolean | null = null;

  constructor(options: PoolOptions) {
    this.#statementMs = options.statementMs;
    this.#pool = new pg.Pool({
      connectionString: options.url,
      application_name: options.name,
      max: options.connections,
      connectionTimeoutMillis: options.connectMs,
      query_timeout: options.statementMs + 200,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
      // The pool waits for it before it provides the connection.
      onConnect: (client) => this.#limit(client),
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
    if (this.#behindPooler ?? (await this.#detectPooler())) {
      return this.transaction((client) => client.query<Row>(sql, values));
    }
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
    return this.withClient(
      (client, results) => work(this.#behindPooler ? withoutNames(client) : client, results),
      first,
    );
  }

  /**
   * Does the same, and provides the connection itself, for COPY. `use` must not use it after it returns, and must not
   * name statements.
   */
  async withClient<Value>(
    use: (client: pg.PoolClient, results: pg.QueryResult[]) => Promise<Value>,
    first: readonly string[] = [],
  ): Promise<Value> {
    const client = await this.#connect();
    try {
      const begin = ['begin', ...(this.#behindPooler ? this.#localLimits() : [])];
      const results: unknown = await client.query([...begin, ...first].join('; '));
      const value = await use(client, Array.isArray(results) ? results.slice(begin.length) : []);
      await client.query('commit');
      client.release();
      return value;
    } catch (error) {
      // Closing the connection rolls back, even if a `rollback` could no longer be sent.
      client.release(true);
      throw asFault(error);
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw asFault(error);
    }
  }

  async #detectPooler(): Promise<boolean> {
    (await this.#connect()).release();
    return this.#behindPooler === true;
  }

  async #limit(client: pg.ClientBase): Promise<void> {
    // The types lack the property.
    const { processID } = client as pg.ClientBase & { processID: number };
    const values = [processID, String(this.#statementMs), String(IDLE_IN_TRANSACTION_MS)];
    const { rows } = await client.query<{ direct: string | null }>(LIMIT_SESSION, values);
    this.#behindPooler = rows[0]?.direct === null;
  }

  #localLimits(): string[] {
    return [
      `set local statement_timeout = ${this.#statementMs}`,
      `set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS}`,
    ];
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/** The names would be prepared on one connection of the pooler, and missing or taken on another. */
function withoutNames(client: pg.PoolClient): Queryable {
  return {
    query: (sql, values) => (typeof sql === 'string' ? client.query(sql, values) : client.query(sql.text, sql.values)),
  };
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
 * The constraint that rejected rows; undefined when Postgres names none. In the partition of a campaign, its name
 * begins with that of the partition (migration 0024), which is left out.
 */
export function constraintOf(error: pg.DatabaseError): string | undefined {
  return error.constraint?.replace(/^redemptions_c\d+_/, 'redemptions_');
}

/** Tables whose rows follow from what is written: a violation there is damage of theirs, not a fault of what is new. */
const DERIVED = new Set(['audit_log', 'audit_chains', 'audit_people', 'redemption_history', 'redemption_links']);

/**
 * Whether Postgres rejected the rows themselves: by a constraint (class 23), or because a value does not fit its column
 * (class 22) or an index (54000).
 */
export function isRefusal(error: unknown): error is pg.DatabaseError {
  return (
    error instanceof pg.DatabaseError && /^(?:2[23]|54000$)/.test(error.code ?? '') && !DERIVED.has(error.table ?? '')
  );
}
