import type { Queryable } from './pool.js';
import { answerOwner } from './snapshot.js';
import { WITHOUT_PERSON } from './user-rows.js';

/** A promotion. `at`: RFC 3339. */
export type Promotion = { reservation: string; at: string };

/** A payment for a reservation that was paid already. `at`: RFC 3339. */
export type DuplicatePayment = { reservation: string; payment: string; campaign: string; at: string };

/** Fills columns of restored rows that the records in Redis lack, from events and idempotency records. */
export class RestoredDetails {
  constructor(readonly client: Queryable) {}

  /** Gives reservations their pseudonyms, and removes what an erasure removes (shared/postgres/user-rows.ts). */
  async eraseUsers(erased: readonly { id: string; pseudonym: string }[]): Promise<void> {
    await this.client.query(
      `update redemptions r set user_id = n.pseudonym, ${WITHOUT_PERSON}
       from unnest($1::uuid[], $2::text[]) as n(id, pseudonym) where r.redemption_id = n.id`,
      [erased.map(({ id }) => id), erased.map(({ pseudonym }) => pseudonym)],
    );
    await this.client.query(`select set_config('doorbuster.erases_user', 'yes', true)`);
    await this.client.query(
      `update redemption_history h set reason = null, reason_salt = null from redemptions r
       where r.redemption_id = any($1::uuid[]) and h.campaign_id = r.campaign_id and h.reservation_id = r.redemption_id
         and h.reason_salt is not null`,
      [erased.map(({ id }) => id)],
    );
  }

  /** Writes when waiting users were promoted whose entries are lost. */
  async fillPromotions(promotions: readonly Promotion[]): Promise<void> {
    if (promotions.length === 0) return;
    const values = [promotions.map(({ reservation }) => reservation), promotions.map(({ at }) => at)];
    await this.client.query(
      `update redemptions r set reserved_at = n.at from unnest($1::uuid[], $2::timestamptz[]) as n(id, at)
       where r.redemption_id = n.id and r.reserved_at <> n.at`,
      values,
    );
    await this.client.query(
      `update waiting_tickets t set ended_at = n.at from unnest($1::uuid[], $2::timestamptz[]) as n(id, at)
       where t.reservation_id = n.id and t.status = 'promoted' and t.ended_at <> n.at`,
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

  /** Does the same for places that have none: the records become those of further keys of their users. */
  async fillAnswersOfPlaces(
    answers: readonly { no: number; user: string; key: string; answer: string }[],
  ): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `insert into remembered_answers (campaign_id, idempotency_key, answer, made_at)
       select distinct on (c.campaign_id, n.user_id, n.key)
         c.campaign_id, ${answerOwner('n.answer')} || '|' || n.key, n.answer, t.joined_at
       from unnest($1::int[], $2::text[], $3::text[], $4::text[]) as n(no, user_id, key, answer)
       join campaigns c on c.no = n.no
       join waiting_tickets t on t.campaign_id = c.campaign_id and t.user_id = n.user_id and t.idempotency_key is null
       order by c.campaign_id, n.user_id, n.key, t.joined_at desc
       on conflict (campaign_id, idempotency_key) do nothing`,
      [
        answers.map(({ no }) => no),
        answers.map(({ user }) => user),
        answers.map(({ key }) => key),
        answers.map(({ answer }) => answer),
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
