import { bucketOfNumber } from '../../shared/domain/buckets.js';
import {
  type CampaignNo,
  campaignNoOf,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import type { RedemptionStatus } from '../../shared/domain/reservation.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { RecordState, ReservationRecord } from '../../shared/sale/reservation-record.js';
import type { Sales, SalesOf } from '../../shared/sale/sales.js';

export type FreshReservation = ReservationRecord & { id: ReservationId; product: ProductId };
export type FreshPlace = { product: ProductId; position: number };

/** A campaign in which a promise may be that Postgres does not have yet. */
export type SellingCampaign = { no: number; productId: ProductId; name: string };

/** Users and reservations as Redis has them now, which Postgres follows within a second. */
export class FreshReservations {
  constructor(
    readonly sales: SalesOf & Pick<Sales, 'map'>,
    readonly directory: CampaignDirectory,
  ) {}

  /**
   * Reads reservations by id, with one call for each campaign. Ids that Redis lacks are left out.
   * @throws EngineUnavailable
   */
  async byId(ids: readonly ReservationId[]): Promise<Map<string, FreshReservation>> {
    const byCampaign = new Map<CampaignNo, ReservationId[]>();
    for (const id of ids) {
      const no = campaignNoOf(id);
      byCampaign.set(no, [...(byCampaign.get(no) ?? []), id]);
    }
    const found = new Map<string, FreshReservation>();
    await Promise.all(
      [...byCampaign].map(async ([no, some]) => {
        const product = await this.directory.productOf(no);
        if (!product) return;
        // The number in an id is that of a bucket, so all of them are in one.
        const { reader } = this.sales.of(product, bucketOfNumber(no));
        const records = await reader.reservationsById(product, some);
        for (const [id, record] of records) found.set(id, { ...record, id: id as ReservationId, product });
      }),
    );
    return found;
  }

  /**
   * Reads the last unit or place of a user in each of these campaigns.
   * @throws EngineUnavailable
   */
  async ofUser(
    user: UserId,
    among: readonly SellingCampaign[],
  ): Promise<{ reservations: FreshReservation[]; places: FreshPlace[] }> {
    const places: FreshPlace[] = [];
    const ids: ReservationId[] = [];
    await Promise.all(
      among.map(async ({ productId }) => {
        const { line } = this.sales.of(productId, this.sales.bucketOf(productId, user));
        const standing = await line.standing(productId, user);
        if (standing.kind !== 'standing') return;
        if (standing.status === 'queued') places.push({ product: productId, position: standing.position });
        if (standing.reservationId) ids.push(standing.reservationId as ReservationId);
      }),
    );
    return { reservations: [...(await this.byId(ids)).values()], places };
  }
}

const STATUS_OF: Record<RecordState, RedemptionStatus> = {
  reserved: 'reserved',
  redeemed: 'redeemed',
  reacquired: 'redeemed',
  released: 'released',
  expired: 'expired',
  refunded: 'refunded',
  burned: 'refunded',
  voided: 'voided',
};

/** The status of a row that has this state. */
export const statusOfRecord = (state: RecordState): RedemptionStatus => STATUS_OF[state];
