import type { Database } from './pool.js';
import {
  ANSWER_COLUMNS,
  RESERVATION_COLUMNS,
  type SnapshotAnswer,
  type SnapshotReservation,
  type SnapshotTicket,
  TICKET_COLUMNS,
} from './snapshot.js';

/** Everything that Postgres has of one user in one campaign, oldest first. */
export type ArchivedPerson = {
  reservations: SnapshotReservation[];
  tickets: SnapshotTicket[];
  answers: SnapshotAnswer[];
};

export type PersonOf = { product: string; user: string };

/** Of a user who made more, the oldest that came to nothing are not found. Only an attacker makes so many. */
const MOST_ROWS = 1_000;

/** Those asked for, by the campaign that they came to. */
const ASKED = `select c.campaign_id, a.user_id, a.nth
  from unnest($1::text[], $2::text[]) with ordinality as a(product, user_id, nth) join campaigns c on c.product_id = a.product`;

/**
 * Finds people of closed campaigns. Each part of a statement names the condition of the index that serves it
 * (migrations/0014): rows that take units have one, those that came to nothing another.
 */
export class ArchivedPeople {
  constructor(readonly database: Database) {}

  /** In the order in which they are asked for; without any row: unknown users. */
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

  /** Users of these reservations; null = it does not exist. */
  async usersOf(reservations: readonly string[]): Promise<(string | null)[]> {
    const { rows } = await this.database.query<{ id: string; user: string }>(
      'select redemption_id as id, user_id as "user" from redemptions where redemption_id = any($1::uuid[])',
      [reservations],
    );
    const users = new Map(rows.map(({ id, user }) => [id, user]));
    return reservations.map((id) => users.get(id) ?? null);
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
