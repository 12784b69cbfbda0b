import type { Redis } from 'ioredis';
import { campaignOfNumber } from '../domain/buckets.js';
import { orderIdOf, type ProductId } from '../domain/ids.js';
import type { Database, Queryable } from '../postgres/pool.js';
import {
  type AnswerOfPlace,
  type AnswerOfReservation,
  type AnswerOfRestock,
  RestoredDetails,
} from '../postgres/restored-details.js';
import { reservationsById } from '../postgres/snapshot.js';
import { eventsOf } from '../projection/events-of-entries.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { insertEvents } from '../projection/new-events.js';
import { type NewTicket, projectEntries, type TicketChange } from '../projection/projection.js';
import { writeProjection } from '../projection/write-projection.js';
import { decodeStoredRequest, restockedIn } from '../redis/idempotency-record.js';
import type { ReservationRecord } from '../sale/reservation-record.js';
import { type CampaignCopy, type Named, SaleCopy } from '../sale/sale-copy.js';
import { recordOf } from './derive.js';
import { type Change, entriesBetween, type Step, stepOf } from './entries-between.js';
import type { CoveredTail, RedisPosition } from './journal-tail.js';
import type { FirstChange } from './rewind.js';
import { rewindRecord } from './rewind-records.js';

/**
 * A reservation in both engines at one position. `latest`: its record as Redis has it. `payments`: references that
 * Postgres lacks, the oldest first.
 */
export type Compared = Omit<Change, 'record'> & { record: ReservationRecord | null; step: Step } & {
  latest: ReservationRecord | null;
  payments: readonly string[];
  first: FirstChange;
};

/**
 * What some reservations and places need in Postgres. `ended`: places that have ended. `erased`: with the pseudonyms of
 * their users. `erasedPlaces`: the same of places.
 */
export type Page = {
  changes: Change[];
  payments: { reservation: string; payment: string }[];
  tickets: NewTicket[];
  ended: TicketChange[];
  erased: { id: string; pseudonym: string }[];
  erasedPlaces: { lineNo: number; pseudonym: string }[];
};

export const emptyPage = (): Page => ({
  changes: [],
  payments: [],
  tickets: [],
  ended: [],
  erased: [],
  erasedPlaces: [],
});

/** Writes to Postgres what Redis has at a position, in transactions of the caller that hold the lock on the cursor. */
export class PostgresWriter {
  readonly #copy: SaleCopy;

  constructor(
    readonly redis: Redis,
    readonly cursor: JournalCursor,
  ) {
    this.#copy = new SaleCopy(redis);
  }

  /** @param cover returns the changes between the position and the moment of a read */
  async compare(
    client: Queryable,
    product: ProductId,
    ids: readonly string[],
    cover: (read: RedisPosition) => Promise<CoveredTail>,
  ): Promise<Compared[]> {
    const stored = await reservationsById(client, ids);
    const read = await this.#copy.records({ product, reservations: ids, users: [] });
    const { reservations, payments } = read.value;
    const { first } = await cover(read);
    return [...new Set(ids)].map((id) => {
      const [one, latest] = [stored.get(id), reservations.get(id) ?? null];
      const row = one ? recordOf(one) : null;
      const known = beforeLater(payments.get(id) ?? [], first('payment', id)?.payment);
      const record = rewindRecord(id, latest, row, known.length > 0, first);
      const lacking = known.filter((payment) => !one?.payments.includes(payment));
      const hasMark = payments.has(id) && !first('due', id);
      return { id, latest, record, row, step: stepOf(record, row), payments: lacking, hasMark, first };
    });
  }

  /**
   * Writes reservations and places with their orders, which Redis stores separately.
   * @param nowMs the time of what has no other
   */
  async write(client: Queryable, campaign: CampaignCopy, page: Page, nowMs: number): Promise<void> {
    const { changes, payments, tickets, ended, erased, erasedPlaces } = page;
    const named: Named[] = [
      ...changes.map(({ id, record }) => ({ reservation: id, user: record.user, order: record.orderId })),
      ...tickets.map(({ reservation, user, order }) => ({ reservation, user, order: order || orderIdOf(reservation) })),
    ];
    const claims = await this.#copy.claims(named);
    // Redis is not read from here on, so that a Redis that hangs delays its own shard alone.
    await this.cursor.lockWrites(client);
    const details = new RestoredDetails(client);
    if (erased.length > 0) await details.eraseUsers(erased);
    if (erasedPlaces.length > 0)
      await details.eraseUsersOfPlaces(erasedPlaces.map((one) => ({ ...one, no: campaign.no })));
    const entries = changes.flatMap((change) => entriesBetween(campaign, change, nowMs));
    const rowsAreNew = await writeProjection(client, {
      ...projectEntries(entries),
      newTickets: tickets,
      ticketChanges: ended,
      furtherPayments: payments.map((payment) => ({ ...payment, no: campaign.no, atMs: nowMs })),
    });
    // Rows come in no order of time. So the search for an initial event would read most of the outbox for each of them.
    await insertEvents(client, eventsOf(entries), rowsAreNew);
    await details.fillStacking(claims);
  }

  /**
   * Writes the idempotency records of rows that have none, and of restocks. Redis still has them for a while.
   * @param campaigns their numbers
   * @param lock locks the cursor
   * @param nowMs the time of records that have no other
   */
  async fillAnswers(
    database: Database,
    campaigns: readonly number[],
    lock: (client: Queryable) => Promise<unknown>,
    nowMs: number,
  ): Promise<void> {
    for await (const answers of this.#copy.answers(campaigns)) {
      const completed: AnswerOfReservation[] = [];
      const queued: AnswerOfPlace[] = [];
      const restocks: AnswerOfRestock[] = [];
      for (const { key, answer } of answers) {
        const restocked = restockedIn(answer);
        if (restocked !== null) restocks.push({ no: campaignOfNumber(restocked), key, answer, atMs: nowMs });
        const stored = decodeStoredRequest(answer);
        if (!stored) continue;
        const { no, user, record } = stored;
        if (record.kind === 'queued') queued.push({ no: campaignOfNumber(no), user, key, answer, atMs: nowMs });
        else completed.push({ reservation: record.reservationId, key, answer, terms: record.terms });
      }
      await database.transaction(async (client) => {
        await lock(client);
        await this.cursor.lockWrites(client);
        const details = new RestoredDetails(client);
        await details.fillAnswers(completed);
        await details.fillAnswersOfPlaces(queued);
        await details.fillAnswersOfRestocks(restocks);
      });
    }
  }
}

/** Those of a reservation without the ones that later entries bring. @param later the first one of those */
function beforeLater(payments: readonly string[], later: string | undefined): readonly string[] {
  const index = later === undefined ? -1 : payments.indexOf(later);
  return index < 0 ? payments : payments.slice(0, index);
}
