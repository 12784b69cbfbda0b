import { storedAudience } from '../../../shared/domain/audience.js';
import {
  type CampaignPolicy,
  storedExtendSeconds,
  storedLimits,
  storedRisk,
} from '../../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../../shared/domain/ids.js';
import type { Reads } from '../../../shared/postgres/circuit-breaker.js';

type Row = {
  product_id: string;
  terms_version: number;
  time_zone: string;
  risk: unknown;
  uniform: unknown;
  limits: unknown;
  audience: unknown;
  checkout_url: string | null;
  extend_seconds: unknown;
  hold_seconds: number;
  closed: boolean;
};

const SELECT = `select product_id, terms_version, time_zone, rules -> 'risk' as risk, rules -> 'uniform_refusals' as uniform,
  rules -> 'limits' as limits, rules -> 'audience' as audience, rules ->> 'checkout_url' as checkout_url,
  rules -> 'extend_seconds' as extend_seconds, hold_seconds, status = 'closed' as closed from campaigns`;

/** The policies of campaigns for the guards, from table `campaigns`. */
export class CampaignPolicies {
  constructor(readonly database: Reads) {}

  /** The policies of all campaigns that are not closed, and of closed ones whose reservations need it to be paid. */
  async live(): Promise<CampaignPolicy[]> {
    const { rows } = await this.database.query<Row>(`${SELECT} where status <> 'closed' or (held > 0
         and (rules ->> 'checkout_url' is not null or hold_seconds > 0))`);
    return rows.map(fromRow);
  }

  /** Asked after a change, which a replica may not have yet. */
  async of(product: ProductId): Promise<CampaignPolicy | null> {
    const { rows } = await (this.database.latest ?? this.database).query<Row>(`${SELECT} where product_id = $1`, [
      product,
    ]);
    return rows[0] ? fromRow(rows[0]) : null;
  }
}

function fromRow(row: Row): CampaignPolicy {
  const { product_id, terms_version, time_zone, uniform, limits, audience } = row;
  const risk = storedRisk(row.risk);
  return {
    product: product_id,
    version: terms_version,
    timeZone: time_zone,
    risk,
    uniformRefusals: uniform === true,
    limits: storedLimits(limits, risk),
    audience: storedAudience(audience),
    checkoutUrl: row.checkout_url,
    extendSeconds: storedExtendSeconds(row.extend_seconds, row.hold_seconds),
    closed: row.closed,
  };
}
