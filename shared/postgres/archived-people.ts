import type { Reads } from './circuit-breaker.js';
import {
  ANSWER_COLUMNS,
  RESERVATION_COLUMNS,
  type SnapshotAnswer,
  type SnapshotReservation,
  type SnapshotTicket,
  TICKET_COLUMNS,
} from './snapshot.js';

/** All rows of one user in one campaign, oldest first. */
export type ArchivedPerson = {
  reservations: SnapshotReservation[];
  tickets: SnapshotTicket[];
  answers: SnapshotAnswer[];
};

export type PersonOf = { product: string; user: string };

/**
 * The limit of rows for each user. Beyond it, the oldest released or expired rows are left out. Only an attacker has so
 * many rows.
 */
const MOST_ROWS = 1_000;

/** The requested users, joined with their campaigns. */
const ASKED = `select c.campaign_id, a.user_id, a.nth
  from unnest($1::text[], $2::text[]) with ordinality as a(product, user_id, nth) join campaigns c on c.product_id = a.product`;

/**
 * Reads users of closed campaigns. Each part of a statement repeats the condition of the partial index that serves it
 * (migrations/schema): one index has the rows that take units, another has the released and expired rows.
 */
export class ArchivedPeople {
  constructor(readonly database: Reads) {}

  /** Reads users in the order of `asked`. An unknown user has no rows. */
  async read(asked: readonly PersonOf[]): Promise<ArchivedPerson[]> {
    const [reservations, tickets, answers] = await Promise.all([
      this.#rows<SnapshotReservation>(
        asked,
        `(select ${RESERVATION_COLUMNS} from redemptions r where r.campaign_id = a.campaign_id and r.user_id = a.user_id
            and (status in ('reserved', 'redeemed') or burned))
         union all
         (select ${RESERVATION_COLUMNS} from redemptions r where r.campaign_id = a.campaign_id and r.user_id = a.user_id
            and status not in ('reserved', 'redeemed') and not burned order by redemption_id desc limit ${MOST_ROWS})`,
        'id',
      ),
      this.#rows<SnapshotTicket>(
        asked,
        `select ${TICKET_COLUMNS} from waiting_tickets t where t.campaign_id = a.campaign_id and t.user_id = a.user_id
           and status <> 'waiting' order by line_no desc limit ${MOST_ROWS}`,
        '"lineNo"',
      ),
      this.#rows<SnapshotAnswer>(
        asked,
        `select ${ANSWER_COLUMNS} from remembered_answers m where m.campaign_id = a.campaign_id
           and split_part(answer, '|', 3) = a.user_id order by made_at desc limit ${MOST_ROWS}`,
        '"madeMs"',
      ),
    ]);
    return asked.map((_, i) => ({
      reservations: reservations.get(i + 1) ?? [],
      tickets: tickets.get(i + 1) ?? [],
      answers: answers.get(i + 1) ?? [],
    }));
  }

  /** The users of these reservations; null = the reservation does not exist. */
  async usersOf(reservations: readonly string[]): Promise<(string | null)[]> {
    const { rows } = await this.database.query<{ id: string; user: string }>(
      'select redemption_id as id, user_id as "user" from redemptions where redemption_id = any($1::uuid[])',
      [reservations],
    );
    const users = new Map(rows.map(({ id, user }) => [id, user]));
    return reservations.map((id) => users.get(id) ?? null);
  }

  /**
   * Id of the last journal entry of a shard, and the version of the map of campaigns, that this database has.
   * @returns also those of these products of which it has lost records
   */
  async committed(
    shard: number,
    products: readonly string[] = [],
  ): Promise<{ last: string; mapVersion: number; lost: readonly string[] }> {
    const { rows } = await this.database.query<{ last: string; mapVersion: number; lost: string[] }>(
      `select j.last_id as last, i.map_version::float8 as "mapVersion",
         array(select product_id from campaigns where product_id = any($2) and records_lost_at is not null) as lost
       from journal_cursor j, installation i where j.shard = $1`,
      [shard, products],
    );
    return rows[0] ?? { last: '0-0', mapVersion: 0, lost: [] };
  }

  async #rows<Row extends object>(
    asked: readonly PersonOf[],
    select: string,
    order: string,
  ): Promise<ReadonlyMap<number, Row[]>> {
    const { rows } = await this.database.query<Row & { nth: number }>(
      `select a.nth::int, found.* from (${ASKED}) a cross join lateral (${select}) found order by a.nth, found.${order}`,
      [asked.map(({ product }) => product), asked.map(({ user }) => user)],
    );
    const found = new Map<number, Row[]>();
    for (const row of rows) {
      const rowsOfUser = found.get(row.nth);
      if (rowsOfUser) rowsOfUser.push(row);
      else found.set(row.nth, [row]);
    }
    return found;
  }
}
