import { createHmac } from 'node:crypto';
import type { SigningKey } from '../../shared/config/environment-values.js';
import { filledCheckoutUrl, hasPlaceholder } from '../../shared/domain/checkout-url.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { ShopperStatusOutcome } from '../../shared/sale/scripts/line.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import type { TermsCache } from './terms-cache.js';

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

/** The key of a mark without a key. No key has this id. */
const NO_KEY = '*';

/**
 * Makes the links by which shoppers pay, from the `checkout_url` of their campaign. The template is in the cached
 * policy, so that a link costs no round trip.
 */
export class PayLinks {
  readonly #key: SigningKey | undefined;
  readonly #lost = new Set<string>();

  /**
   * @param keys PAY_LINK_KEYS; the first signs, and the shop verifies with all of them
   * @param onLost is called once for each product of which a link could not be signed
   */
  constructor(
    readonly policies: Pick<PolicyCache, 'of'>,
    readonly terms: Pick<TermsCache, 'promised'>,
    readonly keys: readonly SigningKey[],
    readonly onLost: (product: string) => void,
  ) {
    [this.#key] = keys;
  }

  /**
   * What is remembered of the link of a response: the key that may sign it, and the version of the terms that have the
   * template; "" = the campaign has none.
   */
  markOf(product: string): string {
    const { checkoutUrl, version } = this.policies.of(product);
    return checkoutUrl === null ? '' : `${this.#key?.id ?? NO_KEY}.${version}`;
  }

  /** Returns the link; null = the campaign has none, there is nothing to pay, or a value of the link is unknown. */
  linkOf(unit: UnpaidUnit): string | null {
    return this.#filled(this.policies.of(unit.product).checkoutUrl, unit, this.#key);
  }

  /**
   * Returns the link of a response. A replay gets the same as the first response, although the template was changed or
   * the keys were rotated since. If the key is gone, the current one signs.
   * @param mark what `markOf` returned before the first response
   * @throws EngineUnavailable if a replay needs an older template from Postgres, and it is away
   */
  markedLinkOf(unit: UnpaidUnit & { product: ProductId }, mark: string): Promise<string | null> | string | null {
    const [kid, marked] = mark.split('.');
    const key = kid === NO_KEY ? undefined : (this.keys.find(({ id }) => id === kid) ?? this.#key);
    const { version, checkoutUrl } = this.policies.of(unit.product);
    if (Number(marked) === version) return this.#filled(checkoutUrl, unit, key);
    return this.terms
      .promised(unit.product, Number(marked))
      .then((found) => this.#filled(found.checkoutUrl, unit, key));
  }

  #filled(template: string | null, unit: UnpaidUnit, key: SigningKey | undefined): string | null {
    if (template === null || !(unit.expiresAtMs > 0)) return null;
    if (hasPlaceholder(template, 'signature') && !key) {
      if (!this.#lost.has(unit.product)) this.onLost(unit.product);
      this.#lost.add(unit.product);
      return null;
    }
    if (hasPlaceholder(template, 'qty') && Number.isNaN(unit.qty)) return null;
    const values = {
      order_id: unit.orderId,
      reservation_id: unit.reservationId,
      product_id: unit.product,
      user_id: unit.user,
      qty: String(unit.qty),
      expires_at: new Date(unit.expiresAtMs).toISOString(),
    };
    return filledCheckoutUrl(template, values, (unsigned) => signature(key as SigningKey, unsigned, unit.expiresAtMs));
  }

  /** Returns the link of a user's unit by their standing; null as `linkOf`, and if the unit is paid or has ended. */
  ofStanding(product: string, user: string, standing: Standing): string | null {
    if (standing.status !== 'promoted' && standing.status !== 'completed') return null;
    return this.linkOf({ ...standing, product, user, expiresAtMs: standing.dueMs });
  }
}

/** Returns `v1.<key id>.<Unix seconds>.<mac>`. server/verify.ts verifies it. */
function signature({ id, key }: SigningKey, unsigned: string, expiresAtMs: number): string {
  const head = `v1.${id}.${Math.floor(expiresAtMs / 1000)}`;
  return `${head}.${createHmac('sha256', key).update(`${head}\n${unsigned}`).digest('base64url')}`;
}

/** The field of a response with the link of a unit; nothing if there is none. */
export function checkoutUrlField(link: string | null): { checkout_url?: string } {
  return link === null ? {} : { checkout_url: link };
}
