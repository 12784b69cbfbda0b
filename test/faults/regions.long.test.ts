import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { PaymentService, Shopper, send } from '../harness/clients.js';
import { importCodes } from '../harness/issued-codes.js';
import { type Attempt, countOutcomes, RedeemCrowd } from '../harness/redeem-crowd.js';
import {
  openCodes,
  type RegionStage,
  readinessOf,
  restoreElsewhere,
  runRegions,
  startTwoRegions,
  untilLinked,
} from '../harness/region-stage.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

const regions = await startTwoRegions({ TRUST_PROXY: '1' });
const { us, eu, toUs, toEu } = regions;

const stderrOf = (error: { stderr: string }) => error.stderr;
const contain = (text: string) => expect.stringContaining(text);
const fields = (code: string, user = `user-${randomUUID()}`) => ({ code, user_id: user, order_id: `order-of-${user}` });
const redeemOnce = (at: RegionStage, json: object, headers: Record<string, string> = {}) =>
  send(`${at.stage.url}/coupons/redeem`, {
    method: 'POST',
    headers: { 'idempotency-key': randomUUID(), ...headers },
    json,
  });
/** As a client does: again with the same key while a region or an engine cannot be reached in time. */
const redeem = (at: RegionStage, json: object, headers: Record<string, string> = {}) => {
  const same = { 'idempotency-key': randomUUID(), ...headers };
  return until('the code is redeemed or refused', async () => {
    const answer = await redeemOnce(at, json, same);
    return answer.status !== 503 && answer;
  });
};

/** Every code of the campaign was redeemed once, and Postgres has exactly what the users were told. */
async function expectEachOnce(
  owner: RegionStage,
  product: string,
  codes: readonly string[],
  told: RedeemCrowd['told'],
) {
  const redeemed = told.filter(({ code, outcome }) => codes.includes(code) && outcome === '201 redeemed');
  expect(redeemed.map(({ code }) => code).sort()).toEqual([...codes].sort());
  const { verdict } = await ledger(owner.stage.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  const rows = await owner.stage.query<{ row: string }>(
    `select concat_ws(' ', r.redemption_id, r.user_id, c.code, r.status) as row from redemptions r
     join campaigns p using (campaign_id) join codes c on c.campaign_id = r.campaign_id and c.code_no = r.code_no
     where product_id = $1`,
    [product],
  );
  expect(rows.map(({ row }) => row).sort()).toEqual(
    redeemed.map(({ reservation, user, code }) => `${reservation} ${user} ${code} redeemed`).sort(),
  );
}

test('a code of another region is validated and redeemed by one call to it, with the address of the client', async () => {
  const { product, codes } = await openCodes(us, 3, { discount: { kind: 'percent', percent: 10 } });
  const [code = '', , last = ''] = codes;
  const valid = await send(`${eu.stage.url}/coupons/validate`, {
    method: 'POST',
    json: { codes: [code, last], user_id: 'shopper', cart: { subtotal: 1_000, currency: 'EUR' } },
  });
  expect([valid.status, valid.data.valid]).toEqual([200, true]);

  const key = randomUUID();
  const json = fields(code, 'shopper');
  const headers = { 'idempotency-key': key, 'x-forwarded-for': '203.0.113.9', 'x-request-id': 'asked-in-eu' };
  const first = await redeem(eu, json, headers);
  expect([first.status, first.data.status, first.headers.get('x-request-id')]).toEqual([
    201,
    'redeemed',
    'asked-in-eu',
  ]);
  const again = await redeem(eu, json, headers);
  expect([again.status, again.text, again.headers.get('idempotent-replayed')]).toEqual([201, first.text, 'true']);
  const inBody = await redeem(us, { ...json, idempotency_key: key }, { 'idempotency-key': key });
  expect([inBody.status, inBody.text]).toEqual([201, first.text]);
  expect(await redeem(eu, fields(code))).toMatchObject({ status: 409, body: { code: 'already_redeemed' } });
  expect(await redeem(eu, fields('US-NEVER-ISSUED'))).toMatchObject({ status: 404, body: { code: 'code_not_found' } });

  await until('the owner has recorded the attempt', async () => {
    const [row] = await us.stage.query<{ network: string }>(
      "select network from redemption_attempts where user_id = 'shopper' and outcome = 'redeemed'",
    );
    return row?.network === '203.0.113.9';
  });
  const { status } = await eu.operator.call('GET', `/admin/campaigns/${product}`);
  expect(status).toBe(404);
});

test('a response that is lost between regions is asked for again', async () => {
  const { product, codes } = await openCodes(us, 1);
  const json = { ...fields(String(codes[0])), idempotency_key: randomUUID() };
  await toUs.loseResponseWith('reservation_id');
  const url = `${eu.stage.url}/coupons/redeem`;
  const first = await send(url, { method: 'POST', json });
  expect([first.status, first.data.status, first.headers.get('idempotent-replayed')]).toEqual([201, 'redeemed', null]);
  expect(await send(url, { method: 'POST', json })).toMatchObject({ status: 409, body: { data: first.data } });
  expect(await us.operator.stats(product)).toMatchObject({ free: 0, redeemed: 1 });
  const { text } = await send(`${eu.stage.url}/metrics`);
  expect(text).toContain('doorbuster_region_calls_total{region="us",outcome="repeated"} 1');
});

test('codes of two regions are not combined, and each region issues only its own', async () => {
  const discount = { kind: 'percent', percent: 10 };
  const mine = await openCodes(eu, 1, { discount });
  const theirs = await openCodes(us, 1, { discount });
  const valid = await send(`${eu.stage.url}/coupons/validate`, {
    method: 'POST',
    json: { codes: [mine.codes[0], theirs.codes[0]], user_id: 'shopper', cart: { subtotal: 1_000, currency: 'EUR' } },
  });
  expect(valid.data.left_out).toEqual([expect.objectContaining({ code: theirs.codes[0], reason: 'not_combinable' })]);

  const wrong = await eu.operator.call('POST', `/admin/campaigns/${mine.product}/codes`, { count: 1, prefix: 'USX' });
  expect(wrong).toMatchObject({ status: 400, body: { errors: [{ pointer: '#/prefix' }] } });
  await importCodes(eu.operator, mine.product, ['EU-IMPORTED', 'US-IMPORTED']);
  expect((await redeem(us, fields('EU-IMPORTED'))).status).toBe(201);
  expect(await redeem(eu, fields('US-IMPORTED'))).toMatchObject({ status: 404, body: { code: 'code_not_found' } });
});

test('a sale of another region is bought, paid, released, refunded and left from here', async () => {
  const product = await us.stage.openCampaign({ total_limit: 2 });
  await until('the other region knows the campaign', async () => {
    const { status } = await send(`${eu.stage.url}/flash-sale/campaign?product_id=${product}`);
    return status === 200;
  });
  const payment = new PaymentService(eu.stage.url);
  const [buyer, other, late] = [1, 2, 3].map(() => new Shopper(eu.stage.url, product)) as [Shopper, Shopper, Shopper];
  const bought = (await buyer.checkout()).data;
  const unpaid = (await other.checkout()).data;
  expect(await late.checkout()).toMatchObject({ status: 202, data: { position: 1 } });
  expect((await late.queueStatus({ 'x-ticket': String(late.ticket) })).data.status).toBe('queued');
  expect((await late.leave()).data).toEqual({ status: 'left' });
  expect((await payment.confirm(bought.reservation_id)).data.status).toBe('redeemed');
  expect((await payment.release(unpaid.reservation_id)).data.released).toBe(true);
  expect((await payment.refund(bought.reservation_id)).data.status).toBe('refunded');
  expect(await us.operator.stats(product)).toMatchObject({ free: 2, held: 0, redeemed: 0 });
  expect(await new Shopper(eu.stage.url, 'never-sold').checkout()).toMatchObject({ status: 404 });
});

test('a product that no region has yet is 404, and a retry with the same key gets the decision of its owner', async () => {
  const product = `later-${randomUUID()}`;
  const shopper = new Shopper(eu.stage.url, product);
  const key = randomUUID();
  expect(await shopper.checkoutWithHeader(key)).toMatchObject({ status: 404, body: { code: 'campaign_not_found' } });
  await us.stage.openCampaign({ product_id: product, total_limit: 1 });
  const bought = await until('the owner has decided', async () => {
    const answer = await shopper.checkoutWithHeader(key);
    return answer.status === 200 && answer;
  });
  expect(bought.headers.get('idempotent-replayed')).toBe(null);
  expect((await shopper.checkoutWithHeader(key)).text).toBe(bought.text);
});

test('only a region with the key is served, and nothing is forwarded twice', async () => {
  const { codes } = await openCodes(us, 1);
  const path = '/regions/forwarded/coupons/redeem';
  const json = { ...fields(String(codes[0])), idempotency_key: randomUUID() };
  for (const headers of [{}, { 'doorbuster-region-key': 'a-wrong-region-secret' }])
    expect(await send(`${us.stage.url}${path}`, { method: 'POST', json, headers })).toMatchObject({ status: 401 });
  const headers = { 'doorbuster-region-key': 'region-secret-of-the-tests' };
  const wrong = await send(`${eu.stage.url}${path}`, { method: 'POST', json, headers });
  expect(wrong).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
  const { text } = await send(`${eu.stage.url}/openapi.json`);
  expect(text.includes('examples/region_unavailable')).toBe(true);
});

test('a link that is cut under load refuses only codes of the other region', async () => {
  const [ofUs, ofEu] = await Promise.all([openCodes(us, 400), openCodes(eu, 400)]);
  const spare = await Promise.all([openCodes(us, 1), openCodes(eu, 1)]);
  let next = 0;
  const crowd = new RedeemCrowd(() => [us, eu][next++ % 2]!.stage.url, 40);
  // Both codes of a pair are tried twice, by different users.
  const attempts: Attempt[] = [...ofUs.codes, ...ofEu.codes]
    .flatMap((code) => [1, 2].map((n) => ({ code, user: `user-${code}-${n}` })))
    .sort((a, b) => (a.user.slice(-6) < b.user.slice(-6) ? -1 : 1));
  const redeeming = crowd.redeem(attempts);
  await until('a part has been redeemed', () => crowd.told.length >= attempts.length / 4);
  await toUs.swallow();
  await toEu.swallow();
  for (const [region, other] of [[us, 'eu'] as const, [eu, 'us'] as const])
    await until('the cut is noticed', async () => {
      const found = await readinessOf(region.stage.url);
      return found?.status === 200 && found.checks[`region_${other}`]?.ok === false;
    });
  const [mine, theirs] = [String(spare[1].codes[0]), String(spare[0].codes[0])];
  const refused = await redeemOnce(eu, fields(theirs));
  expect(refused).toMatchObject({ status: 503, body: { code: 'region_unavailable' } });
  expect(refused.headers.get('content-type')).toBe('application/problem+json');
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await redeem(eu, fields(mine))).toMatchObject({ status: 201 });
  const before = crowd.told.length;
  await until('own codes go on', () => crowd.told.length >= Math.min(before + 20, attempts.length));
  await toUs.heal();
  await toEu.heal();
  const told = await redeeming;
  expect(crowd.repeated).toBeGreaterThan(0);
  expect(countOutcomes(told)).toEqual({ '201 redeemed': 800, '409 already_redeemed': 800 });
  await expectEachOnce(us, ofUs.product, ofUs.codes, told);
  await expectEachOnce(eu, ofEu.product, ofEu.codes, told);
});

test('after a hand-over, the old owner that comes back refuses, and the new one knows what was redeemed', async () => {
  await Promise.all([untilLinked(us, 'eu'), untilLinked(eu, 'us')]);
  const { codes } = await openCodes(us, 3);
  const [used = '', unused = '', third = ''] = codes;
  expect((await redeem(eu, fields(used))).status).toBe(201);
  // The response waits for Redis alone, and the worker may end before it has written the last entries.
  const written = () =>
    us.stage.query('select 1 from redemptions r join codes c using (campaign_id, code_no) where c.code = $1', [used]);
  await until('it is in Postgres', async () => (await written()).length > 0);
  // The region is lost; its Postgres is restored elsewhere, with nothing of Redis.
  await Promise.all([us.stage.workers.at(-1)!.stop(), us.stage.apis.at(-1)!.stop()]);
  await us.stage.postgres.stop();
  const restored = await restoreElsewhere(us, join(us.stage.folder, 'postgres'));
  await us.stage.startPostgres();

  await us.stage.startApi(us.stage.env, false);
  await until('the lost region answers', async () => (await readinessOf(us.stage.url)) !== null);
  for (const [name, reason] of [
    ['eu', 'This installation is us, not eu'],
    ['us', `us answers at ${us.stage.url}`],
  ] as const)
    await expect(runRegions(restored.env, 'failover', name)).rejects.toMatchObject({
      code: 1,
      stderr: contain(reason),
    });
  // The operator has changed the URL already, and another region still reaches the lost one. Until it does, the command
  // would go through.
  await untilLinked(eu, 'us');
  const moved = { ...restored.env, REGIONS: String(restored.env.REGIONS).replace(us.stage.url, 'http://127.0.0.1:1') };
  await until('the other region reaches it', async () => {
    const reason = await runRegions(moved, 'failover', 'us').catch(stderrOf);
    return reason.includes('us answers at the URL that eu has for it');
  });
  await us.stage.apis.at(-1)!.stop();
  // A region that is not told would let the old owner serve, so it is left out only by name.
  const cutOff = { ...restored.env, REGIONS: String(moved.REGIONS).replace(/eu=[^,]+/, 'eu=http://127.0.0.1:1') };
  for (const [args, reason] of [
    [[], 'or with --without eu'],
    [['--without', 'asia'], 'asia is no other region'],
  ] as const)
    await expect(runRegions(cutOff, 'failover', 'us', ...args)).rejects.toMatchObject({
      code: 1,
      stderr: contain(reason),
    });
  let ended = '';
  const epoch = await until('the command finds that the lost region is stopped', async () => {
    const printed = await runRegions(restored.env, 'failover', 'us').catch(stderrOf);
    ended = /The restored database ends at (\S+)\. What/.exec(printed)?.[1] ?? '';
    return /us has epoch (\d+) now/.exec(printed)?.[1];
  });
  expect(Number(epoch)).toBeGreaterThan(1);
  // Before the replacement serves: the old owner may come back first.
  const known = await eu.stage.query("select epoch from region_epochs where region = 'us'");
  expect(known).toEqual([{ epoch }]);
  expect(Date.parse(ended)).toBeGreaterThan(Date.now() - 600_000);
  await Promise.all([restored.startWorker(), restored.startApi()]);
  await restored.ready();
  await toUs.switchTo(Number(restored.env.PORT));
  await untilLinked(eu, 'us');
  expect(await redeem(eu, fields(used))).toMatchObject({ status: 409, body: { code: 'already_redeemed' } });
  expect((await redeem(eu, fields(unused))).status).toBe(201);

  // The old owner comes back, with its own Redis and Postgres, and reaches eu.
  await Promise.all([us.stage.startWorker(), us.stage.startApi(us.stage.env, false)]);
  await until('the old owner has learnt of the new one', async () => {
    const found = await readinessOf(us.stage.url);
    return found?.checks.region?.detail === `another installation owns us since epoch ${epoch}`;
  });
  for (const code of [unused, third])
    expect(await redeemOnce(us, fields(code))).toMatchObject({
      status: 503,
      body: { code: 'temporarily_unavailable' },
    });
  expect((await readinessOf(us.stage.url))?.status).toBe(503);
  expect(await runRegions(us.stage.env)).toContain(`does not serve: another installation owns it since epoch ${epoch}`);
  // Other regions refuse what the old owner says, although its address replies again.
  await toUs.switchTo(Number(new URL(us.stage.url).port));
  await until('the link to the old owner is refused', async () => {
    const found = await readinessOf(eu.stage.url);
    return found?.checks.region_us?.detail === `it has epoch 1, and the owner has epoch ${epoch}`;
  });
  expect((await redeemOnce(eu, fields(third))).status).toBe(503);
});
