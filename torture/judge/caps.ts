import type { RedemptionRow } from '../final-state.js';
import { type Facts, grouped } from './facts.js';
import type { Violation } from './violation.js';

const takesUnits = ({ status, burned }: RedemptionRow) => status === 'reserved' || status === 'redeemed' || burned;

/** Rule 3: Postgres has no more units, allowances and uses of a code taken than there are. */
export function capsHold(facts: Facts): Violation[] {
  const rows = [...facts.redemptions.values()].filter(takesUnits);
  const byProduct = grouped(rows, ({ product_id }) => product_id);
  const burnedOf = grouped([...facts.redemptions.values()], ({ product_id }) => product_id);
  return [...facts.campaigns.values()].flatMap((campaign) => {
    const { product_id: product, total_limit: total, per_user_limit: limit } = campaign;
    const taking = byProduct.get(product) ?? [];
    const burnedInPart = (burnedOf.get(product) ?? []).reduce((sum, { burned_qty }) => sum + burned_qty, 0);
    const taken = taking.reduce((sum, { qty }) => sum + qty, burnedInPart);
    const violations: Violation[] = [];
    if (taken !== campaign.taken) violations.push(violation('`taken` is not the sum of the rows', campaign, taken));
    if (total !== null && taken > total)
      violations.push(violation('more units are taken than there are', campaign, taken));
    for (const [user, own] of grouped(taking, ({ user_id }) => user_id))
      if (own.length > limit) violations.push(violation(`${user} has more than the limit of ${limit}`, ...own));
    const coded = taking.filter(({ code_no }) => code_no !== null);
    for (const uses of grouped(coded, ({ code_no }) => String(code_no)).values())
      if (uses.length > 1) violations.push(violation('a code is used twice', ...uses));
    return violations;
  });
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'caps', what, evidence });
