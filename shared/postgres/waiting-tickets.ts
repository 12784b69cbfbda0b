import type { Database } from './pool.js';

type Row = { user_id: string; line_no: string; reservation_id: string };
type Place = { lineNo: number; reservation: string };

/** Table `waiting_tickets`, for the ledger. */
export class WaitingTickets {
  constructor(readonly database: Database) {}

  /** Reads all places with status `waiting`, in batches. */
  async *waiting(campaignId: string, batch: number): AsyncGenerator<ReadonlyMap<string, Place>> {
    let after: string | null = '';
    do {
      const { rows }: { rows: Row[] } = await this.database.query<Row>(
        `select user_id, line_no, reservation_id from waiting_tickets
         where campaign_id = $1 and status = 'waiting' and user_id > $3 order by user_id limit $2`,
        [campaignId, batch, after],
      );
      yield placesOf(rows);
      after = rows.length < batch ? null : (rows.at(-1)?.user_id ?? null);
    } while (after !== null);
  }

  /** The places of those of these users who wait. */
  async waitingOf(campaignId: string, users: readonly string[]): Promise<ReadonlyMap<string, Place>> {
    if (users.length === 0) return new Map();
    const { rows } = await this.database.query<Row>(
      `select user_id, line_no, reservation_id from waiting_tickets
       where campaign_id = $1 and status = 'waiting' and user_id = any($2)`,
      [campaignId, users],
    );
    return placesOf(rows);
  }
}

function placesOf(rows: readonly Row[]): ReadonlyMap<string, Place> {
  return new Map(
    rows.map(({ user_id, line_no, reservation_id }) => [
      user_id,
      { lineNo: Number(line_no), reservation: reservation_id },
    ]),
  );
}
