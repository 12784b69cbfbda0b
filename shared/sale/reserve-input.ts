import type { DeviceId, IdempotencyKey, OrderId, ProductId, UserId } from '../domain/ids.js';

/** A claim of units, as a route fills it. */
export type ClaimRequest = {
  product: ProductId;
  user: UserId;
  qty: number;
  key: IdempotencyKey;
  /** null = made from the reservation id */
  order: OrderId | null;
  /** null = no device token. The route has verified its signature, the script checks the age. */
  token: { expiresAtSeconds: number } | null;
  /** Only recorded; null = unknown. */
  device: DeviceId | null;
  /** Whether the request proves the identity of the user (ShopperIdentity). */
  proven: boolean;
  /** Device that a genuine token is for; null = none, or its fingerprint was derived. */
  holderDevice: DeviceId | null;
  /** Subject of the device's quota (RequestDevice): the device, or its substitute; null = no quota. */
  counted: string | null;
  /** Network of the request (`networkOf`). The script does not get it. */
  network: string;
  trace: string;
  /** JSON of a flat object of texts (decision 57); null = none */
  metadata: string | null;
  /** null = a claim by product */
  coupon: CouponClaim | null;
};

/** A claim with what the script needs besides. */
export type ReserveInput = {
  claim: ClaimRequest;
  reservationPrefix: string;
  ticketKey: string;
  /**
   * Version of the terms whose audience was checked, negative when it excludes the user; 0 = not checked, which is
   * enough for a campaign without an audience.
   */
  terms: number;
  /** Promises that the caller may still get under new keys, beyond the user's limit; may be negative. */
  newKeys: number;
  /** Of a divided campaign; null = it is not divided. */
  bucket: { buckets: number; place: DrawnPlace | null } | null;
};

/**
 * A line number among all buckets, and the position and the size of the line that the first response has. `lineNo`
 * null: the user waited with the number already, so it is not drawn for a new place.
 */
export type DrawnPlace = { lineNo: number | null; position: number; queueSize: number };

/** Additional fields of a redemption by code. */
export type CouponClaim = {
  /** Number of the code; 0 = the campaign's one code. */
  code: number;
  /** null = no one-time token. The caller has checked the signature, the script checks age and use. */
  once: { nonce: string; expiresAtMs: number } | null;
};
