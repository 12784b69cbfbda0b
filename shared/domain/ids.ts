import { uuidv7 } from 'uuidv7';
import type { Branded } from './brand.js';

/** What a caller names: product, user, device, order. 1–128 characters without "|", which separates packed records. */
export const EXTERNAL_ID_PATTERN = /^[A-Za-z0-9._:@-]{1,128}$/;

export type ProductId = Branded<string, 'ProductId'>;
export type UserId = Branded<string, 'UserId'>;
export type DeviceId = Branded<string, 'DeviceId'>;
export type OrderId = Branded<string, 'OrderId'>;
export type CampaignId = Branded<string, 'CampaignId'>;
/** Small number of a campaign, given by Postgres; it stands in every reservation id. */
export type CampaignNo = Branded<number, 'CampaignNo'>;
export type ReservationId = Branded<string, 'ReservationId'>;
export type IdempotencyKey = Branded<string, 'IdempotencyKey'>;
/** An idempotency key and the user it belongs to; "" = the operators. */
export type OwnedKey = { user: string; key: string };

/**
 * The first 28 characters of a new reservation id: a UUIDv7 without its last 32 bits, which the deciding script fills
 * with the campaign's number. So an id says which campaign it belongs to, and no index from one to the other is needed.
 * 42 random bits within a millisecond remain (docs/decisions/0003-reservation-ids.md).
 */
export function newReservationPrefix(): string {
  return uuidv7().slice(0, 28);
}

/** The order id that lua/includes/records.lua makes when the caller names none. @param reservation an id, or its prefix */
export function orderIdOf(reservation: string): OrderId {
  return `ord_${reservation.slice(0, 28).replaceAll('-', '')}` as OrderId;
}

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** As the script completes it. @param prefix of `newReservationPrefix` */
export function reservationIdOf(prefix: string, no: number): ReservationId {
  return (prefix + no.toString(16).padStart(8, '0')) as ReservationId;
}

/** Of an id that is known to be ours. */
export function campaignNoOf(reservation: string): CampaignNo {
  return Number.parseInt(reservation.slice(28), 16) as CampaignNo;
}

/** Reads a reservation id as a caller sent it; null when it cannot be one of ours. */
export function parseReservationId(text: string): { id: ReservationId; campaignNo: CampaignNo } | null {
  const id = text.toLowerCase();
  if (!UUID_PATTERN.test(id)) return null;
  return { id: id as ReservationId, campaignNo: campaignNoOf(id) };
}

/** When an id was made: the first 48 bits of a UUIDv7, by the clock of the process that made it. */
export function madeAtMs(id: ReservationId): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
