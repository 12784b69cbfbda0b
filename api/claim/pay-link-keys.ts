import type { Config } from '../../shared/config/config.js';
import { Refused } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Database } from '../../shared/postgres/pool.js';

const NAMED = 5;

/**
 * Checks that the links to pay of existing campaigns can be signed. Without the keys a shopper would get a unit and no
 * way to pay. @throws Refused in production; elsewhere it is logged
 */
export async function requirePayLinkKeys(
  { payLinkKeys, production }: Pick<Config, 'payLinkKeys' | 'production'>,
  log: Log,
  database: Database,
): Promise<void> {
  if (payLinkKeys.length > 0) return;
  const { rows } = await database.query<{ product_id: string }>(
    `select product_id from campaigns
     where status <> 'closed' and strpos(rules ->> 'checkout_url', '{signature}') > 0 order by created_at desc limit $1`,
    [NAMED],
  );
  if (rows.length === 0) return;
  const products = rows.map(({ product_id }) => product_id);
  const message =
    `PAY_LINK_KEYS is not set, and campaigns have {signature} in checkout_url (${products.join(', ')}): ` +
    'their shoppers would get no link to pay. Set it to the keys that the shop has';
  if (production) throw new Refused(message);
  log.error({ products }, message);
}
