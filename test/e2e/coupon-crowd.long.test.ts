import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { drawCodes } from '../../shared/domain/codes.js';
import { expectRows, expectStock } from '../harness/checks.js';
import { Operator } from '../harness/clients.js';
import { generateCodes, importCodes } from '../harness/issued-codes.js';
import { countOutcomes, RedeemCrowd, type Told } from '../harness/redeem-crowd.js';
import { startService } from '../harness/service.js';
import { ledger } from '../harness/verdict.js';

// The same users come to three campaigns within a minute, and five times to one of them.
const service = await startService({ REDEEM_PER_MINUTE_PER_USER: '1000', UNKNOWN_CODES_PER_MINUTE: '1000000' });
const operator = new Operator(service.url);
const crowd = new RedeemCrowd(() => service.url);

const UNITS = 1_000;
/** Of the pool and of the bound codes. A code has a script and a test of its own; here is what a crowd adds. */
const CODES = 300;
const TRIES_EACH = 10;
const users = Array.from({ length: UNITS * TRIES_EACH }, (_, i) => `user-${i}`);

/** Postgres has exactly the redemptions that were returned, each with its user and its code. */
async function expectTold(product: string, told: readonly Told[], units: number, coded: boolean): Promise<void> {
  await expectRows(service, product, { redeemed: units });
  await expectStock(operator, product, { total: units, redeemed: units });
  const { rows } = await service.database.client.query(
    `select r.redemption_id as reservation, r.user_id as "user", r.terms_version, coalesce(c.code, '') as code
     from redemptions r join campaigns p using (campaign_id)
     left join codes c on c.campaign_id = r.campaign_id and c.code_no = r.code_no
     where product_id = $1`,
    [product],
  );
  const line = (parts: unknown[]) => parts.join(' ');
  const redeemed = told.filter(({ outcome }) => outcome === '201 redeemed');
  expect(rows.map((row) => line([row.reservation, row.user, row.code, row.terms_version])).sort()).toEqual(
    redeemed.map(({ reservation, user, code }) => line([reservation, user, coded ? code : '', 1])).sort(),
  );
  if (coded) expect(new Set(redeemed.map(({ code }) => code)).size).toBe(units);
  const { verdict } = await ledger(service.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
}

test('10,000 people at once redeem a shared code for 1,000, and exactly 1,000 get it', async () => {
  const code = `CROWD${randomUUID().slice(0, 8).toUpperCase()}`;
  const product = await operator.openCampaign({ code, total_limit: UNITS });
  const told = await crowd.redeem(users.map((user) => ({ code, user })));
  expect(countOutcomes(told)).toEqual({ '201 redeemed': 1_000, '410 sold_out': 9_000 });
  await expectTold(product, told, UNITS, false);
});

test('3,000 people at once redeem 300 codes of a pool, ten each, and each code is used once', async () => {
  const product = await operator.openCampaign({ type: 'pool', total_limit: CODES });
  const codes = await generateCodes(operator, product, CODES);
  const told = await crowd.redeem(
    users.slice(0, CODES * TRIES_EACH).map((user, i) => ({ user, code: String(codes[Math.floor(i / TRIES_EACH)]) })),
  );
  const { '201 redeemed': redeemed, ...refused } = countOutcomes(told);
  expect(redeemed).toBe(CODES);
  // The last unit goes with the last code, so a later request may get either refusal.
  expect(Object.keys(refused).filter((outcome) => !['409 already_redeemed', '410 sold_out'].includes(outcome))).toEqual(
    [],
  );
  expect(told.length).toBe(CODES * TRIES_EACH);
  await expectTold(product, told, CODES, true);
});

test('3,000 attempts at once on 300 codes that are bound to users: each is used once, by its user', async () => {
  const product = await operator.openCampaign({ type: 'unique', total_limit: CODES });
  const codes = drawCodes(CODES, { prefix: 'BOUND', symbols: 10 });
  await importCodes(
    operator,
    product,
    codes.map((code, i) => `${code},user-${i}`),
  );
  // Half of the attempts on a code are its user's, half are those of another user.
  const attempts = codes.flatMap((code, i) =>
    Array.from({ length: TRIES_EACH }, (_, n) => ({ code, user: n % 2 === 0 ? `user-${i}` : `user-${i + n}-other` })),
  );
  const told = await crowd.redeem(attempts);
  expect(countOutcomes(told)).toEqual({
    '201 redeemed': CODES,
    '409 already_redeemed': CODES * 4,
    '404 code_not_found': CODES * 5,
  });
  await expectTold(product, told, CODES, true);
});
