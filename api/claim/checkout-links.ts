import { createHmac } from 'node:crypto';
import type { SigningKey } from '../../shared/config/environment-values.js';
import { filledCheckoutUrl, hasPlaceholder } from '../../shared/domain/checkout-url.js';
import type { ShopperStatusOutcome } from '../../shared/sale/scripts/line.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';

/** A unit that has to be paid for. */
export type UnpaidUnit = {
  product: string;
  user: string;
  reservationId: string;
  orderId: string;
  /** NaN = unknown: the reservation is archived. */
  qty: number;
  /** When the reservation expires, ms; 0 = there is nothing to pay. */
  expiresAtMs: number;
};

type Standing = Extract<ShopperStatusOutcome, { kind: 'standing' }>;

/**
 * Makes the links by which shoppers pay, from the `checkout_url` of their campaign. The template is in the cached
 * policy, so that a link costs no round trip.
 */
export class CheckoutLinks {
  readonly #key: SigningKey | undefined;

  /** @param keys CHECKOUT_URL_KEYS; the first signs, and the shop verifies with all of them */
  constructor(
    readonly policies: Pick<PolicyCache, 'of'>,
    keys: readonly SigningKey[],
  ) {
    [this.#key] = keys;
  }

  /** Returns the link; null = the campaign has none, there is nothing to pay, or a value of the link is unknown. */
  linkOf(unit: UnpaidUnit): string | null {
    const template = this.policies.of(unit.product).checkoutUrl;
    if (template === null || !(unit.expiresAtMs > 0)) return null;
    if (hasPlaceholder(template, 'signature') && !this.#key) return null;
    if (hasPlaceholder(template, 'qty') && Number.isNaN(unit.qty)) return null;
    const values = {
      order_id: unit.orderId,
      reservation_id: unit.reservationId,
      product_id: unit.product,
      user_id: unit.user,
      qty: String(unit.qty),
      expires_at: new Date(unit.expiresAtMs).toISOString(),
    };
    return filledCheckoutUrl(template, values, (unsigned) => this.#sign(unsigned, unit.expiresAtMs));
  }

  /** Returns the link of a user's unit by their standing; null as `linkOf`, and if the unit is paid or has ended. */
  ofStanding(product: string, user: string, standing: Standing): string | null {
    if (standing.status !== 'promoted' && standing.status !== 'completed') return null;
    return this.linkOf({ ...standing, product, user, expiresAtMs: standing.dueMs });
  }

  /** Returns `v1.<key id>.<Unix seconds>.<mac>`. server/verify.ts verifies it. */
  #sign(unsigned: string, expiresAtMs: number): string {
    const { id, key } = this.#key as SigningKey;
    const head = `v1.${id}.${Math.floor(expiresAtMs / 1000)}`;
    return `${head}.${createHmac('sha256', key).update(`${head}\n${unsigned}`).digest('base64url')}`;
  }
}

/** The field of a response with the link of a unit; nothing if there is none. */
export function checkoutUrlField(link: string | null): { checkout_url?: string } {
  return link === null ? {} : { checkout_url: link };
}
