import type { JournalEntry } from '../contracts/journal.js';
import type { Queryable } from '../postgres/pool.js';

/** A promotion. `at`: RFC 3339. */
export type Promotion = { reservation: string; at: string };

/** A payment for a reservation that was paid already. `at`: RFC 3339. */
export type DuplicatePayment = { reservation: string; payment: string; campaign: string; at: string };

/**
 * Fills columns of restored rows that the records in Redis lack, from journal entries, events and idempotency records.
 */
export class RestoredDetails {
  constructor(readonly client: Queryable) {}

  /** Fills in the data that only the original entries have: times, devices, payments and idempotency records. */
  async fillIn(entries: readonly JournalEntry[]): Promise<void> {
    const reserved = entries.filter((entry) => entry.kind === 'reserved');
    const queued = entries.filter((entry) => entry.kind === 'queued');
    await this.#fillReserved(reserved);
    await this.#fillQueued(queued);
    await this.#fillPlaceEnds(entries);
    const changes = entries.flatMap((entry) => {
      switch (entry.kind) {
        case 'redeemed':
          return [{ id: entry.reservation, column: 'redeemed', at: entry.atMs, text: entry.payment }];
        case 'released':
        case 'expired':
        case 'voided':
          return [{ id: entry.reservation, column: 'released', at: entry.atMs, text: entry.reason }];
        case 'refunded':
          return [{ id: entry.reservation, column: 'refunded', at: entry.atMs, text: '' }];
        default:
          return [];
      }
    });
    for (const column of ['redeemed', 'released', 'refunded'] as const) {
      const some = changes.filter((change) => change.column === column);
      if (some.length === 0) continue;
      const text = { redeemed: 'payment_ref', released: 'reason', refunded: 'reason' }[column];
      await this.client.query(
        `update redemptions r set ${column}_at = ms(n.at), ${text} = coalesce(nullif(n.text, ''), r.${text})
         from unnest($1::uuid[], $2::bigint[], $3::text[]) as n(id, at, text) where r.redemption_id = n.id`,
        [some.map(({ id }) => id), some.map(({ at }) => at), some.map(({ text }) => text)],
      );
    }
  }

  async #fillReserved(entries: readonly Extract<JournalEntry, { kind: 'reserved' }>[]): Promise<void> {
    if (entries.length === 0) return;
    await this.client.query(
      `update redemptions r set reserved_at = ms(n.at), device_fp = nullif(n.device, ''), idempotency_key = nullif(n.key, ''),
         idempotency_answer = nullif(n.answer, ''), trace = nullif(n.trace, ''), terms_version = n.terms
       from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[])
         as n(id, at, device, key, answer, trace, terms) where r.redemption_id = n.id`,
      [
        entries.map(({ reservation }) => reservation),
        entries.map(({ atMs }) => atMs),
        entries.map(({ device }) => device),
        entries.map(({ key }) => key),
        entries.map(({ answer }) => answer),
        entries.map(({ trace }) => trace),
        entries.map(({ terms }) => terms),
      ],
    );
  }

  async #fillQueued(entries: readonly Extract<JournalEntry, { kind: 'queued' }>[]): Promise<void> {
    if (entries.length === 0) return;
    await this.client.query(
      `update waiting_tickets t set joined_at = ms(n.at), device_fp = nullif(n.device, ''), idempotency_key = nullif(n.key, ''),
         idempotency_answer = nullif(n.answer, ''), trace = nullif(n.trace, ''), order_id = nullif(n.order_id, '')
       from unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
         as n(no, line_no, at, device, key, answer, trace, order_id) join campaigns c on c.no = n.no
       where t.campaign_id = c.campaign_id and t.line_no = n.line_no`,
      [
        entries.map(({ no }) => no),
        entries.map(({ lineNo }) => lineNo),
        entries.map(({ atMs }) => atMs),
        entries.map(({ device }) => device),
        entries.map(({ key }) => key),
        entries.map(({ answer }) => answer),
        entries.map(({ trace }) => trace),
        entries.map(({ order }) => order),
      ],
    );
  }

  /** Writes when places ended: by a promotion, by their users, or with their line. */
  async #fillPlaceEnds(entries: readonly JournalEntry[]): Promise<void> {
    const ended = entries.flatMap((entry) =>
      entry.kind === 'left' || (entry.kind === 'reserved' && entry.lineNo > 0) ? [entry] : [],
    );
    if (ended.length > 0) {
      await this.client.query(
        `update waiting_tickets t set ended_at = ms(n.at)
         from unnest($1::int[], $2::bigint[], $3::bigint[]) as n(no, line_no, at) join campaigns c on c.no = n.no
         where t.campaign_id = c.campaign_id and t.line_no = n.line_no and t.status <> 'waiting'`,
        [ended.map(({ no }) => no), ended.map(({ lineNo }) => lineNo), ended.map(({ atMs }) => atMs)],
      );
    }
    for (const entry of entries) {
      const closesLine = entry.kind === 'line_closed' || (entry.kind === 'status' && entry.status === 'closed');
      if (!closesLine) continue;
      // A place of this line with a later end has the time of the repair.
      await this.client.query(
        `update waiting_tickets t set ended_at = ms($2) from campaigns c
         where c.no = $1 and t.campaign_id = c.campaign_id and t.status = 'closed' and t.ended_at > ms($2)
           and t.line_no <= coalesce($3::bigint, t.line_no)`,
        [entry.no, entry.atMs, entry.kind === 'line_closed' ? entry.upTo : null],
      );
    }
  }

  /** Writes when waiting users were promoted whose entries are lost. */
  async fillPromotions(promotions: readonly Promotion[]): Promise<void> {
    if (promotions.length === 0) return;
    const values = [promotions.map(({ reservation }) => reservation), promotions.map(({ at }) => at)];
    await this.client.query(
      `update redemptions r set reserved_at = n.at from unnest($1::uuid[], $2::timestamptz[]) as n(id, at)
       where r.redemption_id = n.id`,
      values,
    );
    await this.client.query(
      `update waiting_tickets t set ended_at = n.at from unnest($1::uuid[], $2::timestamptz[]) as n(id, at)
       where t.reservation_id = n.id and t.status = 'promoted'`,
      values,
    );
  }

  /** Writes the idempotency records of reservations whose entries are lost; Redis still has these records. */
  async fillAnswers(
    answers: readonly { reservation: string; key: string; answer: string; terms: number }[],
  ): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `update redemptions r set idempotency_key = n.key, idempotency_answer = n.answer, terms_version = n.terms
       from unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) as n(id, key, answer, terms)
       where r.redemption_id = n.id and r.idempotency_key is null`,
      [
        answers.map(({ reservation }) => reservation),
        answers.map(({ key }) => key),
        answers.map(({ answer }) => answer),
        answers.map(({ terms }) => terms),
      ],
    );
  }

  /** Writes the references of payments whose entries are lost. */
  async fillPayments(payments: readonly { reservation: string; payment: string }[]): Promise<void> {
    if (payments.length === 0) return;
    await this.client.query(
      `update redemptions r set payment_ref = n.payment from unnest($1::uuid[], $2::text[]) as n(id, payment)
       where r.redemption_id = n.id and r.payment_ref is null and r.status in ('redeemed', 'refunded')`,
      [payments.map(({ reservation }) => reservation), payments.map(({ payment }) => payment)],
    );
  }

  /** Writes the stacking of reservations and places on their orders, where it is unknown. */
  async fillStacking(claims: readonly { reservation: string; stacking: string }[]): Promise<void> {
    if (claims.length === 0) return;
    const values = [claims.map(({ reservation }) => reservation), claims.map(({ stacking }) => stacking)];
    await this.client.query(
      `update redemptions r set stacking = n.stacking from unnest($1::uuid[], $2::text[]) as n(id, stacking)
       where r.redemption_id = n.id and r.stacking is null`,
      values,
    );
    await this.client.query(
      `update waiting_tickets t set stacking = n.stacking from unnest($1::uuid[], $2::text[]) as n(id, stacking)
       where t.reservation_id = n.id and t.status = 'waiting' and t.stacking is null`,
      values,
    );
  }

  /** Writes duplicate payments whose entries are lost. */
  async fillDuplicatePayments(payments: readonly DuplicatePayment[]): Promise<void> {
    if (payments.length === 0) return;
    await this.client.query(
      `insert into duplicate_payments (reservation_id, payment_ref, campaign_id, paid_at)
       select n.id, n.payment, n.campaign, n.at
       from unnest($1::uuid[], $2::text[], $3::uuid[], $4::timestamptz[]) as n(id, payment, campaign, at)
       join campaigns c on c.campaign_id = n.campaign
       on conflict (reservation_id, payment_ref) do nothing`,
      [
        payments.map(({ reservation }) => reservation),
        payments.map(({ payment }) => payment),
        payments.map(({ campaign }) => campaign),
        payments.map(({ at }) => at),
      ],
    );
  }
}
