import { Batch } from './batch.js';
import type { Queryable } from './pool.js';
import { answerOwner } from './snapshot.js';
import { PLACE_WITHOUT_PERSON, WITHOUT_PERSON } from './user-rows.js';

const ERASED = new Batch({ id: 'uuid', pseudonym: 'text' });
const ERASED_PLACES = new Batch({ no: 'int', lineNo: 'bigint', pseudonym: 'text' });
const ANSWERS = new Batch({ reservation: 'uuid', key: 'text', answer: 'text', terms: 'int' });
const ANSWERS_OF_PLACES = new Batch({ no: 'int', user: 'text', key: 'text', answer: 'text', atMs: 'bigint' });
const ANSWERS_OF_RESTOCKS = new Batch({ no: 'int', key: 'text', answer: 'text', atMs: 'bigint' });
const CLAIMS = new Batch({ reservation: 'uuid', stacking: 'text' });

/** The idempotency record of a reservation, and the version of its terms. */
export type AnswerOfReservation = { reservation: string; key: string; answer: string; terms: number };
/** The idempotency record of a place. `atMs`: its time if the user has no place. */
export type AnswerOfPlace = { no: number; user: string; key: string; answer: string; atMs: number };
/** The idempotency record of a restock. */
export type AnswerOfRestock = { no: number; key: string; answer: string; atMs: number };
/** How a reservation is stacked with others of its order. */
export type Claim = { reservation: string; stacking: string };

/** Fills columns of restored rows whose entries are lost; Redis has them elsewhere than in its records. */
export class RestoredDetails {
  constructor(readonly client: Queryable) {}

  /** Gives reservations their pseudonyms, and removes what an erasure removes (shared/postgres/user-rows.ts). */
  async eraseUsers(erased: readonly { id: string; pseudonym: string }[]): Promise<void> {
    await this.client.query(
      `update redemptions r set user_id = n.pseudonym, ${WITHOUT_PERSON} from ${ERASED.sql} where r.redemption_id = n.id`,
      ERASED.of(erased),
    );
    await this.client.query(`select set_config('doorbuster.erases_user', 'yes', true)`);
    await this.client.query(
      `update redemption_history h set reason = null, reason_salt = null from redemptions r
       where r.redemption_id = any($1::uuid[]) and h.campaign_id = r.campaign_id and h.reservation_id = r.redemption_id
         and h.reason_salt is not null`,
      [erased.map(({ id }) => id)],
    );
  }

  /** Does the same for places that have ended. */
  async eraseUsersOfPlaces(erased: readonly { no: number; lineNo: number; pseudonym: string }[]): Promise<void> {
    await this.client.query(
      `update waiting_tickets t set user_id = n.pseudonym, ${PLACE_WITHOUT_PERSON}
       from ${ERASED_PLACES.sql} join campaigns c on c.no = n.no
       where t.campaign_id = c.campaign_id and t.line_no = n.lineNo and t.status <> 'waiting'`,
      ERASED_PLACES.of(erased),
    );
  }

  /** Writes the idempotency records of reservations that have none. */
  async fillAnswers(answers: readonly AnswerOfReservation[]): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `update redemptions r set idempotency_key = n.key, idempotency_answer = n.answer, terms_version = n.terms
       from ${ANSWERS.sql} where r.redemption_id = n.reservation and r.idempotency_key is null`,
      ANSWERS.of(answers),
    );
  }

  /**
   * Does the same for places: records that no place of the user contains become those of further keys. The place of a
   * record may have no row any more, because its user has left it and claimed again.
   */
  async fillAnswersOfPlaces(answers: readonly AnswerOfPlace[]): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `insert into remembered_answers (campaign_id, idempotency_key, answer, made_at)
       select c.campaign_id, ${answerOwner('n.answer')} || '|' || n.key, n.answer, coalesce(max(t.joined_at), ms(max(n.atMs)))
       from ${ANSWERS_OF_PLACES.sql}
       join campaigns c on c.no = n.no
       left join waiting_tickets t on t.campaign_id = c.campaign_id and t.user_id = n."user"
       group by c.campaign_id, n.key, n.answer having not coalesce(bool_or(t.idempotency_key = n.key), false)
       on conflict (campaign_id, idempotency_key) do nothing`,
      ANSWERS_OF_PLACES.of(answers),
    );
  }

  /** Writes the idempotency records of restocks, so that a repetition adds nothing. */
  async fillAnswersOfRestocks(answers: readonly AnswerOfRestock[]): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `insert into remembered_answers (campaign_id, idempotency_key, answer, made_at)
       select c.campaign_id, ${answerOwner('n.answer')} || '|' || n.key, n.answer, ms(n.atMs)
       from ${ANSWERS_OF_RESTOCKS.sql} join campaigns c on c.no = n.no
       on conflict (campaign_id, idempotency_key) do nothing`,
      ANSWERS_OF_RESTOCKS.of(answers),
    );
  }

  /** Writes the stacking of reservations and places on their orders, where it is unknown. */
  async fillStacking(claims: readonly Claim[]): Promise<void> {
    if (claims.length === 0) return;
    await this.client.query(
      `update redemptions r set stacking = n.stacking from ${CLAIMS.sql}
       where r.redemption_id = n.reservation and r.stacking is null`,
      CLAIMS.of(claims),
    );
    await this.client.query(
      `update waiting_tickets t set stacking = n.stacking from ${CLAIMS.sql}
       where t.reservation_id = n.reservation and t.status = 'waiting' and t.stacking is null`,
      CLAIMS.of(claims),
    );
  }
}
