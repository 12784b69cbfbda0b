import { hash } from 'node:crypto';
import type { OutboxEvent } from '../contracts/events.js';
import type { EntryOf, JournalEntry } from '../contracts/journal.js';
import type { Queryable } from '../postgres/pool.js';
import { prepared } from '../postgres/prepared.js';
import type { EventSpan } from './event-span.js';
import { eventsOf, type NewEvent } from './events-of-entries.js';
import { insertEvents, insertInitialEvents } from './new-events.js';
import { areNewReservations, insertReservations, type NewReservation } from './new-redemptions.js';

/** How many versions of terms are cached. The discount of a version never changes. */
const TERMS_KEPT = 10_000;

/** The fields of a campaign that events contain. */
type EventTerms = { campaignId: string; productId: string; discount: unknown };

/** Events that a transaction has written. `events`: all of them, in order; null = they must be read from the outbox. */
export type WrittenEvents = { span: EventSpan; events: OutboxEvent[] | null };

/**
 * Writes the events of journal entries. For a batch of new reservations alone, `writeReservations` also writes their
 * rows and moves the cursor in the same statement. Composes the events of new reservations from the entries in memory,
 * so that the worker can publish them after the commit without reading them from the outbox. The view `outbox_events`
 * computes the same events.
 */
export class EventWriter {
  /** `campaign number/version` → terms. */
  readonly #terms = new Map<string, EventTerms>();
  #generation: number | null = null;

  /**
   * Drops what is cached when a new history has begun, because a campaign number may be given again after Postgres was
   * set back.
   * @param generation of the locked cursor
   */
  startGeneration(generation: number | null): void {
    if (generation !== this.#generation) this.forget();
    this.#generation = generation;
  }

  /** Drops what is cached. */
  forget(): void {
    this.#terms.clear();
  }

  /**
   * Writes the events of the entries.
   * @param rowsAreNew whether the transaction has inserted every reservation that the entries make
   * @returns null when there are no events
   */
  async write(client: Queryable, entries: readonly JournalEntry[], rowsAreNew: boolean): Promise<WrittenEvents | null> {
    const events = eventsOf(entries);
    const reserved = entries.filter((entry) => entry.kind === 'reserved');
    const byId = new Map(reserved.map((entry) => [entry.reservation, entry]));
    // A reservation that the journal has twice makes only one row.
    const allNew = rowsAreNew && byId.size === reserved.length;
    const plain = allNew && events.every(({ initial }) => initial) && (await this.#learn(client, reserved));
    const span = await (plain ? insertInitialEvents(client, events) : insertEvents(client, events, allNew));
    if (!span) return null;
    return { span, events: plain && isDense(span, events) ? this.#compose(span, events, byId) : null };
  }

  /**
   * The entries in the form for `writeReservations`; null when some are of another kind, or Postgres lacks their terms.
   */
  async reservationsIn(client: Queryable, entries: readonly JournalEntry[]): Promise<readonly NewReservation[] | null> {
    return areNewReservations(entries) && (await this.#learn(client, entries)) ? entries : null;
  }

  /**
   * Writes new reservations from `reservationsIn`, their events and the cursor of the journal, with one statement.
   * @param cursor to which entry the cursor of which shard moves
   * @returns null when there are no events
   * @throws pg.DatabaseError of class 23 when a row breaks the cap or an allowance, or its campaign does not exist
   */
  async writeReservations(
    client: Queryable,
    entries: readonly NewReservation[],
    cursor: { upTo: string; shard: number },
  ): Promise<WrittenEvents | null> {
    const span = await insertReservations(client, entries, cursor);
    if (span?.count === entries.length) {
      const events = eventsOf(entries);
      const byId = new Map(entries.map((entry) => [entry.reservation, entry]));
      return { span, events: isDense(span, events) ? this.#compose(span, events, byId) : null };
    }
    // Some rows existed before, but their events may be missing.
    const missing = await insertEvents(client, eventsOf(entries));
    const [first, last] = [span ?? missing, missing ?? span];
    if (!first || !last) return null;
    const count = (span?.count ?? 0) + (missing?.count ?? 0);
    return { span: { after: first.after, first: first.first, last: last.last, count }, events: null };
  }

  /** Caches the terms of the entries. @returns whether Postgres has the terms of each entry */
  async #learn(client: Queryable, entries: readonly EntryOf<'reserved'>[]): Promise<boolean> {
    const unknown = new Map<string, [number, number]>();
    for (const { no, terms } of entries) {
      if (!this.#terms.has(`${no}/${terms}`)) unknown.set(`${no}/${terms}`, [no, terms]);
    }
    if (unknown.size === 0) return true;
    const wanted = [...unknown.values()];
    const { rows } = await client.query<EventTerms & { no: number; version: number }>(
      prepared(
        'event_terms',
        `select c.no, t.version, c.campaign_id as "campaignId", c.product_id as "productId", t.discount
         from unnest($1::int[], $2::int[]) as n(no, version) join campaigns c on c.no = n.no
         join campaign_terms t on t.campaign_id = c.campaign_id and t.version = n.version`,
        [wanted.map(([no]) => no), wanted.map(([, version]) => version)],
      ),
    );
    if (this.#terms.size + rows.length > TERMS_KEPT) this.#terms.clear();
    for (const { no, version, ...terms } of rows) this.#terms.set(`${no}/${version}`, terms);
    return entries.every(({ no, terms }) => this.#terms.has(`${no}/${terms}`));
  }

  /**
   * Composes the events from the entries.
   * @returns null when an entry lacks a field: the device of a promoted user may be only in the ticket
   */
  #compose(
    span: EventSpan,
    events: readonly NewEvent[],
    entries: ReadonlyMap<string, EntryOf<'reserved'>>,
  ): OutboxEvent[] | null {
    const composed: OutboxEvent[] = [];
    for (const [i, { type, reservation, data }] of events.entries()) {
      const entry = entries.get(String(reservation));
      const terms = entry && this.#terms.get(`${entry.no}/${entry.terms}`);
      if (!entry || !terms || (entry.lineNo > 0 && entry.device === '')) return null;
      composed.push({
        seq: span.first + i,
        id: eventId(entry.reservation, type),
        type,
        subject: entry.reservation,
        occurredAt: new Date(entry.atMs),
        trace: entry.trace || null,
        data: {
          campaign_id: terms.campaignId,
          product_id: terms.productId,
          reservation_id: entry.reservation,
          user_id: entry.user,
          order_id: entry.order,
          qty: entry.qty,
          discount: terms.discount,
          device_fp: entry.device || null,
          ...(entry.metadata ? { metadata: JSON.parse(entry.metadata) } : {}),
          ...data,
        },
      });
    }
    return composed;
  }
}

/** Whether the events have consecutive numbers. */
function isDense({ first, last, count }: EventSpan, events: readonly NewEvent[]): boolean {
  return count === events.length && last - first === count - 1;
}

/**
 * The id of an event about a reservation: a UUIDv8 of reservation and type. The SQL function `event_id_of` computes the
 * same.
 */
export function eventId(reservation: string, type: string): string {
  const hex = hash('sha256', `${reservation} ${type}`);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
