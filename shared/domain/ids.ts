import { uuidv7 } from 'uuidv7';
import type { Branded } from './brand.js';

/**
 * Ids that callers choose: products, users, devices, orders. 1–128 characters without "|", which separates the fields
 * of packed records.
 */
export const EXTERNAL_ID_PATTERN = /^[A-Za-z0-9._:@-]{1,128}$/;

export type ProductId = Branded<string, 'ProductId'>;
export type UserId = Branded<string, 'UserId'>;
export type DeviceId = Branded<string, 'DeviceId'>;
export type OrderId = Branded<string, 'OrderId'>;
export type CampaignId = Branded<string, 'CampaignId'>;
/** The number of a campaign, assigned by Postgres. Every reservation id contains it. */
export type CampaignNo = Branded<number, 'CampaignNo'>;
export type ReservationId = Branded<string, 'ReservationId'>;
export type IdempotencyKey = Branded<string, 'IdempotencyKey'>;
/** An idempotency key and the user to whom it belongs; "" = operators. */
export type OwnedKey = { user: string; key: string };

/**
 * The first 28 characters of a new reservation id: a UUIDv7 without its last 32 bits. The script that decides appends
 * the campaign's number. So an id contains its campaign, and no index is needed. 42 random bits within a millisecond
 * remain (docs/decisions/0003-reservation-ids.md).
 */
export function newReservationPrefix(): string {
  return uuidv7().slice(0, 28);
}

/** The order id that lua/includes/records.lua makes when the caller sends none: all digits of the reservation id. */
export function orderIdOf(reservation: string): OrderId {
  return `ord_${reservation.replaceAll('-', '')}` as OrderId;
}

const MADE_ORDER = /^ord_([0-9a-f]{8})([0-9a-f]{4})(7[0-9a-f]{3})([89ab][0-9a-f]{3})([0-9a-f]{12})$/;

/** Returns the reservation id in an order id that `orderIdOf` made; null = a caller has chosen the order id. */
export function reservationOfOrder(order: string): ReservationId | null {
  const [, ...parts] = MADE_ORDER.exec(order) ?? [];
  return parts.length === 0 ? null : (parts.join('-') as ReservationId);
}

/**
 * The name of an order in Redis, which a claim needs before the script decides: an order id made here, without the
 * number of the campaign.
 * @param order also the beginning of an order id, from the prefix of a reservation id
 */
export function orderName(order: OrderId): string {
  return MADE_ORDER.test(order) ? order.slice(0, 28) : order;
}

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Completes a reservation id as the script does. @param prefix from `newReservationPrefix` */
export function reservationIdOf(prefix: string, no: number): ReservationId {
  return (prefix + no.toString(16).padStart(8, '0')) as ReservationId;
}

/**
 * The campaign number in a reservation id, with the bucket of a divided campaign (buckets.ts).
 * @param reservation an id that was parsed or made here
 */
export function campaignNoOf(reservation: string): CampaignNo {
  return Number.parseInt(reservation.slice(28), 16) as CampaignNo;
}

/** Parses a reservation id that a caller sent. @returns null when no script can have made the id */
export function parseReservationId(text: string): { id: ReservationId; campaignNo: CampaignNo } | null {
  const id = text.toLowerCase();
  if (!UUID_PATTERN.test(id)) return null;
  return { id: id as ReservationId, campaignNo: campaignNoOf(id) };
}

/** When an id, or its prefix, was made, by the clock of the process that made it: the first 48 bits of the UUIDv7. */
export function madeAtMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** The lowest id that can be made at a time. */
export function firstIdAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}
