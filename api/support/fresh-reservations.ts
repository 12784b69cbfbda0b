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
import { type RecordState, type ReservationRecord, takesUnits } from '../../shared/sale/reservation-record.js';
import type { Sales, SalesOf } from '../../shared/sale/sales.js';

export type FreshReservation = ReservationRecord & { id: ReservationId; product: ProductId };
export type FreshPlace = { product: ProductId; position: number };
/** `slots`: campaign → number of reservations for which the allowance of the user is taken. */
export type FreshOfUser = { reservations: FreshReservation[]; places: FreshPlace[]; slots: Map<ProductId, number> };

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
  async ofUser(user: UserId, among: readonly SellingCampaign[]): Promise<FreshOfUser> {
    const places: FreshPlace[] = [];
    const ids: ReservationId[] = [];
    const slots = new Map<ProductId, number>();
    await Promise.all(
      among.map(async ({ productId }) => {
        const { line, reader } = this.sales.of(productId, this.sales.bucketOf(productId, user));
        const standing = await line.standing(productId, user);
        if (standing.kind !== 'standing' || standing.status === 'not_queued') return;
        slots.set(productId, await reader.slotsOf(productId, user));
        if (standing.status === 'queued') places.push({ product: productId, position: standing.position });
        if (standing.reservationId) ids.push(standing.reservationId as ReservationId);
      }),
    );
    return { reservations: [...(await this.byId(ids)).values()], places, slots };
  }
}

/**
 * Whether all units of a user are known. Redis has the last reservation of each user, and how many take a part of the
 * allowance; the others are known once Postgres has them.
 * @param written reads the reservations that Postgres has of the user in these campaigns
 * @throws EngineUnavailable
 */
export async function knowsAll(
  fresh: Pick<FreshReservations, 'byId'>,
  { reservations, slots }: FreshOfUser,
  written: (products: readonly ProductId[]) => Promise<readonly ReservationId[]>,
): Promise<boolean> {
  const known = new Map(reservations.map((one) => [one.id, one]));
  const isMissing = ([product, taken]: [ProductId, number]) =>
    [...known.values()].filter((one) => one.product === product && takesUnits(one.state)).length < taken;
  const unknown = [...slots].filter(isMissing);
  if (unknown.length === 0) return true;
  const ids = await written(unknown.map(([product]) => product));
  for (const one of (await fresh.byId(ids)).values()) known.set(one.id, one);
  return !unknown.some(isMissing);
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
