import type { RedemptionStatus } from '../domain/reservation.js';
import { pagesOf, readInOrder } from './pages.js';
import type { Database, Queryable } from './pool.js';

/** A reservation in Postgres, with everything that Redis needs to continue it. */
export type SnapshotReservation = {
  id: string;
  user: string;
  order: string;
  qty: number;
  slot: number;
  status: RedemptionStatus;
  burned: boolean;
  reacquired: boolean;
  lineNo: number;
  dueMs: number;
  /** Whether the deadline was extended. */
  extended: boolean;
  reservedMs: number;
  /** When the reservation was last paid; 0 = never. */
  redeemedMs: number;
  /** References of its payments, oldest first. */
  payments: string[];
  code: number | null;
  /** Units that were given back while the reservation kept `qty`; null = none. */
  reduced: { released: number; refunded: number; burned: number } | null;
  key: string | null;
  answer: string | null;
};

export type SnapshotTicket = {
  lineNo: number;
  user: string;
  qty: number;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  reservation: string;
  order: string | null;
  joinedMs: number;
  /** The device that joined the line; null = unknown. */
  device: string | null;
  code: number | null;
  key: string | null;
  answer: string | null;
};

/** All rows of one user in one campaign, oldest first. */
export type UserRows = {
  user: string;
  reservations: readonly SnapshotReservation[];
  tickets: readonly SnapshotTicket[];
};

/** An idempotency record that no other row contains. `name`: its primary key. `user`: "" = an operator. */
export type SnapshotAnswer = { name: string; user: string; key: string; answer: string; madeMs: number };

/** A claim on an order: a reservation that has not ended, or a place in line. `claimedMs`: since when. */
export type SnapshotOrder = {
  reservation: string;
  user: string;
  order: string | null;
  stacking: string;
  claimedMs: number;
};

const EPOCH_MS = (column: string) => `coalesce((extract(epoch from ${column}) * 1000)::bigint, 0)::float8`;

export const RESERVATION_COLUMNS = `redemption_id as id, user_id as "user", order_id as "order", qty, slot, status, burned,
  reacquired, coalesce(line_no, 0)::float8 as "lineNo", ${EPOCH_MS('pay_before')} as "dueMs", extended,
  ${EPOCH_MS('reserved_at')} as "reservedMs", ${EPOCH_MS('redeemed_at')} as "redeemedMs", code_no as code,
  array_remove(payment_ref || array(select d.payment_ref from duplicate_payments d where d.reservation_id = redemption_id
    order by d.paid_at, d.payment_ref), null) as payments,
  case when released_qty + refunded_qty > 0
    then json_build_object('released', released_qty, 'refunded', refunded_qty, 'burned', burned_qty) end as reduced,
  idempotency_key as key, idempotency_answer as answer`;
export const TICKET_COLUMNS = `line_no::float8 as "lineNo", user_id as "user", qty, status, reservation_id as reservation,
  order_id as "order", ${EPOCH_MS('joined_at')} as "joinedMs", device_fp as device, code_no as code,
  idempotency_key as key, idempotency_answer as answer`;
/** SQL: the user to whom an idempotency record belongs; "" = an operator. */
export const answerOwner = (answer: string) =>
  `case when ${answer} like 'restock|%' then '' else split_part(${answer}, '|', 3) end`;
/** The primary key is `user|key`. */
export const ANSWER_COLUMNS = `idempotency_key as name, ${answerOwner('answer')} as "user",
  substr(idempotency_key, strpos(idempotency_key, '|') + 1) as key, answer, ${EPOCH_MS('made_at')} as "madeMs"`;

/** Conditions of the partial indexes by campaign and user (migrations/schema). Each row fulfils one of its table. */
const TAKEN_OR_ENDED = [
  `(status in ('reserved', 'redeemed') or burned)`,
  `status not in ('reserved', 'redeemed') and not burned`,
];
const WAITING_OR_NOT = [`status = 'waiting'`, `status <> 'waiting'`];
/** SQL: the user of the last row of a page, in the order of users. */
const LAST_OF_PAGE = `select "user" from (${[
  ...TAKEN_OR_ENDED.map((part) => ['redemptions', part]),
  ...WAITING_OR_NOT.map((part) => ['waiting_tickets', part]),
]
  .map(
    ([table, part]) => `(select user_id as "user" from ${table} where campaign_id = $1 and user_id > $2 and ${part}
  order by user_id limit $3 + 1)`,
  )
  .join(' union all ')}) f order by "user" offset $3 limit 1`;

/** Reads these reservations: id → row. */
export async function reservationsById(
  client: Queryable,
  ids: readonly string[],
): Promise<Map<string, SnapshotReservation>> {
  if (ids.length === 0) return new Map();
  const { rows } = await client.query<SnapshotReservation>(
    `select ${RESERVATION_COLUMNS} from redemptions where redemption_id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Reads all rows of one campaign in batches, to fill Redis. */
export class CampaignSnapshot {
  constructor(
    readonly database: Database,
    readonly campaignId: string,
  ) {}

  /**
   * Reads all users with their rows, oldest first, in pages of about `batch` rows. The indexes by user have the order,
   * so no list of all users is needed.
   */
  async *users(batch: number): AsyncGenerator<UserRows[]> {
    let after = '';
    for (;;) {
      const values = [this.campaignId, after, batch - 1];
      const [last] = await readInOrder<{ user: string }>(this.database, LAST_OF_PAGE, values);
      const upTo = last?.user ?? null;
      yield await this.#usersBetween(after, upTo);
      if (upTo === null) return;
      after = upTo;
    }
  }

  /** @param upTo null = all further ones */
  async #usersBetween(after: string, upTo: string | null): Promise<UserRows[]> {
    const values = upTo === null ? [this.campaignId, after] : [this.campaignId, after, upTo];
    const where = `campaign_id = $1 and user_id > $2${upTo === null ? '' : ' and user_id <= $3'}`;
    const select = (columns: string, table: string, parts: readonly string[], order: string) =>
      `select * from (${parts.map((part) => `select ${columns} from ${table} where ${where} and ${part}`).join(' union all ')}) f
       order by ${order}`;
    const [reservations, tickets] = await Promise.all([
      this.database.query<SnapshotReservation>(
        select(RESERVATION_COLUMNS, 'redemptions', TAKEN_OR_ENDED, 'id'),
        values,
      ),
      this.database.query<SnapshotTicket>(
        select(TICKET_COLUMNS, 'waiting_tickets', WAITING_OR_NOT, '"lineNo"'),
        values,
      ),
    ]);
    const users = new Map<string, { user: string; reservations: SnapshotReservation[]; tickets: SnapshotTicket[] }>();
    const of = (user: string) => {
      const known = users.get(user);
      if (known) return known;
      const rows = { user, reservations: [], tickets: [] };
      users.set(user, rows);
      return rows;
    };
    for (const row of reservations.rows) of(row.user).reservations.push(row);
    for (const row of tickets.rows) of(row.user).tickets.push(row);
    return [...users.values()];
  }

  /** Reads the idempotency records that no other row contains. */
  answers(batch: number): AsyncGenerator<SnapshotAnswer[]> {
    return this.#pages(
      `select ${ANSWER_COLUMNS} from remembered_answers
       where campaign_id = $1 and idempotency_key > $3 order by idempotency_key limit $2`,
      { batch, after: '', keyOf: ({ name }) => name },
    );
  }

  /**
   * Reads the claims on orders since `sinceMs`, also of those that have ended. Reservations are found by their ids,
   * which begin with the time at which they were made.
   */
  async *orders(batch: number, sinceMs: number): AsyncGenerator<SnapshotOrder[]> {
    yield* this.#pages<SnapshotOrder>(
      `select redemption_id as reservation, user_id as "user", order_id as "order",
         case when status in ('reserved', 'redeemed') then stacking else 'ended' end as stacking,
         ${EPOCH_MS('reserved_at')} as "claimedMs"
       from redemptions where campaign_id = $1 and redemption_id > $3 and stacking is not null
       order by redemption_id limit $2`,
      { batch, after: firstIdAt(sinceMs), keyOf: ({ reservation }) => reservation },
    );
    yield* this.#pages<SnapshotOrder & { lineNo: number }>(
      `select reservation_id as reservation, user_id as "user", order_id as "order", stacking, ${EPOCH_MS('joined_at')} as "claimedMs",
         line_no::float8 as "lineNo"
       from waiting_tickets where campaign_id = $1 and line_no > $3 and status = 'waiting' and stacking is not null
       order by line_no limit $2`,
      { batch, after: 0, keyOf: ({ lineNo }) => lineNo },
    );
  }

  /**
   * Reads the numbers of the used codes of a closed campaign: those of its reservations, and those of users whose place
   * ended with the campaign and who did nothing since.
   */
  async *usedCodes(batch: number): AsyncGenerator<number[]> {
    const pages = this.#pages<{ code: number }>(
      `select code_no as code from redemptions
       where campaign_id = $1 and code_no > $3 and code_no is not null and (status in ('reserved', 'redeemed') or burned)
       union select code_no from waiting_tickets t
       where campaign_id = $1 and status = 'closed' and code_no > $3
         and not exists (select 1 from waiting_tickets l where l.campaign_id = $1 and l.user_id = t.user_id
           and l.status <> 'waiting' and l.line_no > t.line_no)
         and not exists (select 1 from redemptions r where r.campaign_id = $1 and r.user_id = t.user_id
           and greatest(r.reserved_at, case when r.reacquired then r.redeemed_at end) >= t.joined_at)
       order by 1 limit $2`,
      { batch, after: 0, keyOf: ({ code }) => code },
    );
    for await (const rows of pages) yield rows.map(({ code }) => code);
  }

  #pages<Row extends object>(
    sql: string,
    pages: { batch: number; after: string | number; keyOf: (row: Row) => string | number },
  ): AsyncGenerator<Row[]> {
    return pagesOf<Row>(this.database, sql, { campaignId: this.campaignId, ...pages });
  }

  /** Reads the idempotency records of restocks. They belong to operators, who are not recalled. */
  async restocks(): Promise<SnapshotAnswer[]> {
    const { rows } = await this.database.query<SnapshotAnswer>(
      `select ${ANSWER_COLUMNS} from remembered_answers where campaign_id = $1 and answer like 'restock|%'`,
      [this.campaignId],
    );
    return rows;
  }
}

/** An id below the id of any reservation that was made at `ms` or later. */
function firstIdAt(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
