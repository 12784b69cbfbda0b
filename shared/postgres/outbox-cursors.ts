import type { Database } from './pool.js';

/**
 * Destinations of the outbox whose position is in Postgres. Webhook endpoints have a table of their own. `push`:
 * notifications by Web Push (push-subscriptions.ts).
 */
export type OutboxDestination = 'kafka' | 'push';

/** The position of one destination, and how sending to it goes. */
export type OutboxCursor = {
  destination: OutboxDestination;
  /** `seq` of the last event that the destination has received. */
  lastSeq: number;
  /** Failed attempts since the last success. */
  attempts: number;
  failingSince: Date | null;
  lastError: string | null;
  lastSentAt: Date | null;
  /** Events that were deleted before the destination received them. */
  skipped: number;
};

type Row = {
  destination: OutboxDestination;
  last_seq: string;
  attempts: number;
  failing_since: Date | null;
  last_error: string | null;
  last_sent_at: Date | null;
  skipped: string;
};

const COLUMNS = 'destination, last_seq, attempts, failing_since, last_error, last_sent_at, skipped';
const LATER = (parameter: string) => `now() + make_interval(secs => ${parameter}::float8 / 1000)`;

/** Table `outbox_cursors`. */
export class OutboxCursors {
  constructor(readonly database: Database) {}

  /** @returns null when no worker has used the destination yet */
  async find(destination: OutboxDestination): Promise<OutboxCursor | null> {
    const { rows } = await this.database.query<Row>(`select ${COLUMNS} from outbox_cursors where destination = $1`, [
      destination,
    ]);
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Leases a destination, or extends the lease that this run has. A new destination starts before the oldest event of
   * the outbox.
   * @returns null while another run holds it
   */
  async lease(destination: OutboxDestination, lease: string, leaseMs: number): Promise<OutboxCursor | null> {
    const { rows } = await this.database.query<Row>(
      `insert into outbox_cursors as c (destination, last_seq, lease, leased_until)
       values ($1, coalesce((select min(seq) - 1 from outbox), 0), $2, ${LATER('$3')})
       on conflict (destination) do update set lease = $2, leased_until = ${LATER('$3')}
       where c.lease = $2 or coalesce(c.leased_until, now()) <= now() returning ${COLUMNS}`,
      [destination, lease, leaseMs],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  async release(destination: OutboxDestination, lease: string): Promise<void> {
    await this.database.query(
      'update outbox_cursors set lease = null, leased_until = null where destination = $1 and lease = $2',
      [destination, lease],
    );
  }

  /**
   * Records that the destination has received the events from `after` to `seq`, and extends the lease.
   * @returns null when another run holds the destination, or an operator has moved its position
   */
  async advance(
    destination: OutboxDestination,
    lease: string,
    leaseMs: number,
    { after, seq }: { after: number; seq: number },
  ): Promise<OutboxCursor | null> {
    const { rows } = await this.database.query<Row>(
      `update outbox_cursors set last_seq = $5, last_sent_at = now(), attempts = 0, failing_since = null,
         last_error = null, leased_until = ${LATER('$3')}
       where destination = $1 and lease = $2 and last_seq = $4 returning ${COLUMNS}`,
      [destination, lease, leaseMs, after, seq],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Records that the destination works again although it has received nothing.
   * @returns null when another run holds the destination
   */
  async succeed(destination: OutboxDestination, lease: string): Promise<OutboxCursor | null> {
    const { rows } = await this.database.query<Row>(
      `update outbox_cursors set attempts = 0, failing_since = null, last_error = null
       where destination = $1 and lease = $2 returning ${COLUMNS}`,
      [destination, lease],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Records a failure, and extends the lease.
   * @returns null when another run holds the destination
   */
  async fail(
    destination: OutboxDestination,
    lease: string,
    leaseMs: number,
    error: string,
  ): Promise<OutboxCursor | null> {
    const { rows } = await this.database.query<Row>(
      `update outbox_cursors set attempts = attempts + 1, failing_since = coalesce(failing_since, now()), last_error = $4,
         leased_until = ${LATER('$3')}
       where destination = $1 and lease = $2 returning ${COLUMNS}`,
      [destination, lease, leaseMs, error],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }
}

function fromRow(row: Row): OutboxCursor {
  return {
    destination: row.destination,
    lastSeq: Number(row.last_seq),
    attempts: row.attempts,
    failingSince: row.failing_since,
    lastError: row.last_error,
    lastSentAt: row.last_sent_at,
    skipped: Number(row.skipped),
  };
}
