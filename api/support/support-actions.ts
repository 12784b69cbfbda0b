import { assertNever } from '../../shared/domain/assert-never.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import {
  type CampaignNo,
  type ProductId,
  parseReservationId,
  type ReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { Acknowledged, Acknowledgements } from '../claim/acknowledgement.js';
import { resendEvents } from './resent-events.js';

export type SupportOperator = { name: string; requestId: string; trace: string };

export type SupportDeps = {
  database: Database;
  sales: SalesOf;
  acknowledgements: Acknowledgements;
  /** @throws Problem 404 */
  campaign: (idOrProduct: string) => Promise<StoredCampaign>;
  campaignByNo: (no: CampaignNo) => Promise<StoredCampaign | null>;
};

export type ReleasedForUser =
  | { id: ReservationId; status: 'released' | 'expired' }
  | { id: ReservationId; status: 'reserved'; qty: number; released_qty: number };
export type RefundedForUser =
  | { id: ReservationId; status: 'refunded'; returned_to_stock: boolean }
  | { id: ReservationId; status: 'redeemed'; returned_to_stock: boolean; qty: number; refunded_qty: number };

type Located = { id: ReservationId; campaign: StoredCampaign; product: ProductId; user: UserId };

/**
 * Helps one user at an operator's request. The audit entry is written last, because other entries of the campaign wait
 * for it. If that fails after the script has decided, the operator gets 503, and repeating the action adds the entry.
 * The operator is in the journal in any case.
 */
export class SupportActions {
  constructor(readonly deps: SupportDeps) {}

  /** @param keep number of units that the reservation keeps; 0 = it ends. @throws Problem 404, 409 */
  async release(text: string, reason: string, by: SupportOperator, keep = 0): Promise<ReleasedForUser> {
    const at = await this.#locate(text);
    const note = reason || `released by ${by.name}`;
    return this.#audited<ReleasedForUser>('reservation.release', at, reason, by, keep, async () => {
      const outcome = await this.deps.sales
        .of(at.product, bucketOfReservation(at.id))
        .reservations.release(at.product, at.id, null, note, { actor: by.name, trace: by.trace }, keep);
      switch (outcome.kind) {
        case 'kept': {
          const { qty, released } = outcome;
          return [{ id: at.id, status: 'reserved', qty, released_qty: released }, outcome];
        }
        case 'released':
          if (keep > 0) throw new Problem('reservation_released', `The reservation is ${outcome.state}.`);
          return [{ id: at.id, status: outcome.state }, outcome];
        case 'settled':
          throw settled(outcome.state);
        case 'foreign':
        case 'not_found':
          throw notFound();
        default:
          return assertNever(outcome);
      }
    });
  }

  /** @param keep number of units that the reservation keeps; 0 = it ends. @throws Problem 404, 409 */
  async refund(text: string, reason: string, by: SupportOperator, keep = 0): Promise<RefundedForUser> {
    const at = await this.#locate(text);
    return this.#audited<RefundedForUser>('reservation.refund', at, reason, by, keep, async () => {
      const { sales } = this.deps;
      const store = sales.of(at.product, bucketOfReservation(at.id));
      const outcome = await store.reservations.refund(at.product, at.id, { actor: by.name, trace: by.trace }, keep);
      switch (outcome.kind) {
        case 'kept': {
          const { qty, refunded, burned } = outcome;
          const returned_to_stock = refunded > 0 && burned === 0;
          return [{ id: at.id, status: 'redeemed', returned_to_stock, qty, refunded_qty: refunded }, outcome];
        }
        case 'refunded':
          if (keep > 0) throw new Problem('reservation_refunded', 'The whole reservation has already been refunded.');
          return [{ id: at.id, status: 'refunded', returned_to_stock: outcome.returned }, outcome];
        case 'unpaid':
          throw new Problem('reservation_not_redeemed', `The reservation is ${outcome.state}.`);
        case 'not_found':
          throw notFound();
        default:
          return assertNever(outcome);
      }
    });
  }

  /** Schedules the events of a reservation for webhooks again. @throws Problem 404 */
  async resend(text: string, reason: string, by: SupportOperator) {
    const at = await this.#locate(text);
    return this.#audited('reservation.resend', at, reason, by, 0, async (client) => {
      const sent = await resendEvents(client, at.id);
      if (sent.events === 0)
        throw new Problem(
          'event_not_found',
          'No enabled webhook endpoint received an event of this reservation that is still stored.',
        );
      return [{ id: at.id, ...sent }, null];
    });
  }

  /**
   * Removes a user from the line of a campaign. The journal entry of the script becomes the audit entry.
   * @throws Problem 404, 409
   */
  async removeFromLine(idOrProduct: string, user: UserId, reason: string, by: SupportOperator): Promise<void> {
    const campaign = await this.deps.campaign(idOrProduct);
    const product = campaign.productId;
    const { database, sales, acknowledgements } = this.deps;
    const bucket = sales.bucketOf(product, user);
    const operator = { actor: by.name, requestId: by.requestId, reason };
    const outcome = await sales.of(product, bucket).line.leave(product, user, null, by.trace, operator);
    switch (outcome.kind) {
      case 'left': {
        const after = { user_id: user, ...(reason ? { reason } : {}), unchanged: true };
        // Only what the script has changed is in the journal.
        if (outcome.journalId === '') await this.#audit(database, 'line.remove', campaign, after, by);
        return acknowledgements.held(product, outcome, bucket);
      }
      case 'not_waiting':
        throw new Problem('not_waiting', 'The user is not in the line of this campaign.');
      case 'not_found':
        throw new Problem('campaign_not_found', 'The campaign has no line: it is a draft or archived.');
      default:
        return assertNever(outcome);
    }
  }

  /** Finds a reservation and its user. @throws Problem 404 */
  async #locate(text: string): Promise<Located> {
    const parsed = parseReservationId(text);
    const campaign = parsed && (await this.deps.campaignByNo(parsed.campaignNo));
    if (!parsed || !campaign) throw notFound();
    const product = campaign.productId;
    const { reader } = this.deps.sales.of(product, bucketOfReservation(parsed.id));
    const records = await reader.reservationsById(product, [parsed.id]);
    const user = records.get(parsed.id)?.user ?? (await this.#userInPostgres(campaign.id, parsed.id));
    if (user === null) throw notFound();
    return { id: parsed.id, campaign, product, user: user as UserId };
  }

  async #userInPostgres(campaignId: string, id: ReservationId): Promise<string | null> {
    const { rows } = await this.deps.database.query<{ user_id: string }>(
      'select user_id from redemptions where campaign_id = $1 and redemption_id = $2',
      [campaignId, id],
    );
    return rows[0]?.user_id ?? null;
  }

  /**
   * Writes what was decided as well.
   * @param act returns the result, and what the response waits for; null = nothing
   */
  async #audited<Value extends { id: ReservationId }>(
    action: string,
    at: Located,
    reason: string,
    by: SupportOperator,
    keep: number,
    act: (client: Queryable) => Promise<[Value, Acknowledged | null]>,
  ): Promise<Value> {
    const kept = keep > 0 ? { keep } : {};
    const request = { user_id: at.user, reservation_id: at.id, ...kept, ...(reason ? { reason } : {}) };
    const [value, acknowledged] = await this.deps.database.transaction(async (client) => {
      const done = await act(client);
      const [{ id: _, ...decided }, answer] = done;
      const unchanged = answer?.journalId === '' ? { unchanged: true } : {};
      await this.#audit(client, action, at.campaign, { ...request, ...decided, ...unchanged }, by);
      return done;
    });
    if (acknowledged) await this.deps.acknowledgements.held(at.product, acknowledged, bucketOfReservation(at.id));
    return value;
  }

  #audit(
    client: Queryable,
    action: string,
    { id }: StoredCampaign,
    after: Record<string, unknown>,
    by: SupportOperator,
  ): Promise<void> {
    return writeAudit(client, {
      actor: by.name,
      action,
      campaignId: id,
      before: null,
      after,
      requestId: by.requestId,
    });
  }
}

const notFound = () => new Problem('reservation_not_found', 'No reservation has this id.');

function settled(state: 'redeemed' | 'reacquired' | 'refunded' | 'burned' | 'voided'): Problem {
  if (state === 'redeemed' || state === 'reacquired')
    return new Problem('reservation_redeemed', 'The reservation is paid. Refund it instead.');
  if (state === 'voided')
    return new Problem('reservation_voided', 'The reservation was voided because it broke a limit of the campaign.');
  return new Problem('reservation_refunded', 'The reservation has already been refunded.');
}
