import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { PaymentService, Shopper, send } from '../harness/clients.js';
import {
  openCodes,
  REGION_SECRET,
  type RegionStage,
  restoreElsewhere,
  runRegions,
  startTwoRegions,
  untilLinked,
} from '../harness/region-stage.js';
import { until } from '../harness/until.js';

const { us, eu, toUs } = await startTwoRegions();

/** @returns the reservation */
const redeem = async (at: RegionStage, code: string): Promise<string> => {
  const user = `user-${randomUUID()}`;
  const same = { 'idempotency-key': randomUUID(), 'x-request-id': `redeem-${code}` };
  const json = { code, user_id: user, order_id: `order-of-${user}` };
  const { data } = await until('the code is redeemed', async () => {
    const answer = await send(`${at.stage.url}/coupons/redeem`, { method: 'POST', headers: same, json });
    return answer.status === 201 && answer;
  });
  return data.reservation_id;
};
const missingIn = (printed: string) =>
  [
    ...printed.matchAll(
      /^missing: (\w+) of (\S+), reservation (\S+), (\w+(?: by payment \S+)?);.* database has (\w+)$/gm,
    ),
  ]
    .map(([, ...fields]) => fields.join(' '))
    .sort();

test('after a hand-over to an older copy, exactly the decisions are listed that another region returned and the copy lacks', async () => {
  const { product, codes } = await openCodes(us, 5);
  const mine = await openCodes(eu, 1);
  const sold = await us.stage.openCampaign({ total_limit: 2 });
  await until('the other region knows the campaign', async () => {
    const { status } = await send(`${eu.stage.url}/flash-sale/campaign?product_id=${sold}`);
    return status === 200;
  });
  const [first = '', second = '', third = '', atHome = '', again = ''] = codes;
  const buyer = new Shopper(eu.stage.url, sold);
  const early = await redeem(eu, first);
  const bought = (await buyer.checkout()).data.reservation_id;
  const payment = new PaymentService(eu.stage.url);
  const paid = (await new Shopper(eu.stage.url, sold).checkout()).data.reservation_id;
  for (const reference of ['first', 'second'])
    await until('it is paid', async () => (await payment.confirm(paid, reference)).status === 200);
  await until('all are in Postgres', async () => {
    const rows = await us.stage.query('select 1 from redemptions where redemption_id = any($1)', [
      [early, bought, paid],
    ]);
    const charges = await us.stage.query('select 1 from duplicate_payments where reservation_id = $1', [paid]);
    return rows.length === 3 && charges.length === 1;
  });
  const copy = join(us.stage.folder, 'postgres-copy');
  await us.stage.withoutPostgres(() => void execFileSync('cp', ['-a', join(us.stage.folder, 'postgres'), copy]));

  const lost = [await redeem(eu, second), await redeem(eu, third)];
  await redeem(us, atHome);
  await redeem(us, String(mine.codes[0]));
  const waiting = new Shopper(eu.stage.url, sold);
  await until('the user is in line', async () => (await waiting.checkout()).status === 202);
  await until('the payment is confirmed', async () => (await payment.confirm(bought)).status === 200);
  await until('it is paid again', async () => (await payment.confirm(paid, 'third')).status === 200);
  const recorded = () =>
    eu.stage.query<{ row: { reservation_id: string; epoch: number } }>(
      'select to_jsonb(a) as row from region_acknowledgements a',
    );
  const reservationsIn = (found: Awaited<ReturnType<typeof recorded>>) =>
    new Set(found.map(({ row }) => row.reservation_id)).size;
  const rows = await until('eu has recorded what it returned', async () => {
    const found = await recorded();
    return reservationsIn(found) >= 6 && found;
  });
  // Neither codes nor users are in the records of the region that forwards.
  for (const secret of [...codes.map((code) => `"${code}"`), 'user-', buyer.user])
    expect(JSON.stringify(rows)).not.toContain(secret);

  await Promise.all([us.stage.workers.at(-1)!.stop(), us.stage.apis.at(-1)!.stop()]);
  await us.stage.postgres.stop();
  const restored = await restoreElsewhere(us, copy);
  const printed = await until('the command finds that the lost region is stopped', () =>
    runRegions(restored.env, 'failover', 'us').catch(() => ''),
  );
  const [place] = /reservation (\S+), queued/.exec(printed)?.slice(1) ?? [];
  const expected = [
    ...lost.map((id) => `redeem ${product} ${id} redeemed nothing`),
    `confirm ${sold} ${bought} redeemed reserved`,
    `confirm ${sold} ${paid} paid_again by payment third redeemed`,
    `checkout ${sold} ${place} queued nothing`,
  ].sort();
  expect(missingIn(printed)).toEqual(expected);
  expect(printed).toContain(`request redeem-${second};`);
  expect(printed).toContain('5 acknowledged decisions that other regions returned are missing.');
  expect(printed).toContain('cannot list what the lost us returned to its own clients directly.');

  // The replacement decides again, and the list stays the same.
  await Promise.all([restored.startWorker(), restored.startApi()]);
  await restored.ready();
  await toUs.switchTo(Number(restored.env.PORT), { keep: true });
  await untilLinked(eu, 'us');
  await redeem(eu, second);
  await redeem(eu, again);
  // By the epoch of the new owner: a repetition of an earlier call may have been recorded meanwhile.
  const epoch = Math.max(...rows.map(({ row }) => row.epoch));
  await until(
    'eu has recorded them',
    async () => reservationsIn((await recorded()).filter(({ row }) => row.epoch > epoch)) === 2,
  );
  expect(missingIn(await runRegions(restored.env, 'lost'))).toEqual(expected);
  // Only a region with the key reads the records.
  const url = `${eu.stage.url}/regions/acknowledgements`;
  const json = { region: 'us', epochs_below: 9, after: null };
  expect((await send(url, { method: 'POST', json })).status).toBe(401);
  const headers = { 'doorbuster-region-key': REGION_SECRET };
  expect((await send(url, { method: 'POST', json, headers })).status).toBe(200);

  // A long list, in several pages, with a gap.
  await eu.stage.query(
    `insert into region_acknowledgements (acknowledged_at, acknowledgement_id, region, epoch, operation, reservation_id, status,
       request_id, unrecorded)
     select now() + n * interval '1 ms', gen_random_uuid(), 'us', 1, 'redeem',
       (left(gen_random_uuid()::text, 28) || '00000001')::uuid, 'redeemed', 'r', case when n = 7 then 3 else 0 end
     from generate_series(1, 2300) n`,
  );
  const long = await runRegions(restored.env, 'lost');
  expect(missingIn(long)).toHaveLength(100);
  expect(long).toContain('3 decisions that eu returned could not be recorded: they may be missing as well.');
  const [, path = ''] = /The first 100 are above, all are in (\S+)\.$/m.exec(long) ?? [];
  const all = readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(all).toHaveLength(2_305);
  expect(all[0]).toMatchObject({
    operation: 'redeem',
    region: 'eu',
    request_id: expect.any(String),
    in_database: null,
  });

  // Without the other region the list is not whole, and says so.
  const alone = { ...restored.env, REGIONS: String(restored.env.REGIONS).replace(/eu=[^,]+/, 'eu=http://127.0.0.1:1') };
  expect(await runRegions(alone, 'lost')).toContain('and what eu returned.');
  await expect(runRegions(eu.stage.env, 'lost')).rejects.toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('No failover to this installation') },
  });
}, 300_000);
