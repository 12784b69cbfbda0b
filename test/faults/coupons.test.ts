import { expect, test } from '@jest/globals';
import { Operator } from '../harness/clients.js';
import { generateCodes } from '../harness/issued-codes.js';
import { countOutcomes, RedeemCrowd } from '../harness/redeem-crowd.js';
import { until } from '../harness/until.js';
import { verdictAtRest } from '../harness/verdict.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
const CODES = 300;
const TRIES_EACH = 3;

test('kill -9 of the API in the middle of a crowd at a pool of codes: each code is used once, by whom it was told to', async () => {
  const product = await stage.openCampaign({ type: 'pool', total_limit: CODES, hold_seconds: 0 });
  const codes = await generateCodes(new Operator(stage.url), product, CODES);
  const crowd = new RedeemCrowd(() => stage.url, 100);
  const attempts = codes.flatMap((code, i) =>
    Array.from({ length: TRIES_EACH }, (_, n) => ({ code, user: `user-${i}-${n}` })),
  );
  const redeeming = crowd.redeem(attempts);
  for (let kills = 1; kills <= 2; kills += 1) {
    await until('a part of them has been told', () => crowd.told.length >= (kills * attempts.length) / 4);
    await stage.apis.at(-1)!.kill();
    await stage.startApi();
  }
  const told = await redeeming;
  expect(crowd.repeated).toBeGreaterThan(0);

  const redeemed = told.filter(({ outcome }) => outcome === '201 redeemed');
  expect(redeemed.map(({ code }) => code).sort()).toEqual([...codes].sort());
  const refusals = Object.keys(countOutcomes(told)).filter((outcome) => outcome !== '201 redeemed');
  expect(refusals.every((outcome) => ['409 already_redeemed', '410 sold_out'].includes(outcome))).toBe(true);
  expect(told.length).toBe(CODES * TRIES_EACH);

  const verdict = await verdictAtRest(stage.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  const rows = await stage.query<{ row: string }>(
    `select concat_ws(' ', r.redemption_id, r.user_id, c.code, r.status) as row from redemptions r
     join campaigns p using (campaign_id) join codes c on c.campaign_id = r.campaign_id and c.code_no = r.code_no
     where product_id = $1`,
    [product],
  );
  expect(rows.map(({ row }) => row).sort()).toEqual(
    redeemed.map(({ reservation, user, code }) => `${reservation} ${user} ${code} redeemed`).sort(),
  );
});
