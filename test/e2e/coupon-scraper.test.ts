import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { expect, test } from '@jest/globals';
import { drawCodes } from '../../shared/domain/codes.js';
import { expectStock } from '../harness/checks.js';
import { Operator } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { countOutcomes, RedeemCrowd } from '../harness/redeem-crowd.js';
import { startService } from '../harness/service.js';
import { until } from '../harness/until.js';

// Each code is to reach the filter; limits.test.ts has the limit for a network.
const service = await startService({ UNKNOWN_CODES_PER_MINUTE: '1000000' });
const operator = new Operator(service.url);
const crowd = new RedeemCrowd(() => service.url, 20);

/** What the filter has answered so far. */
async function filterLookups(): Promise<Record<'unknown' | 'maybe' | 'unsure', number>> {
  const text = await metricsText(service.url);
  const count = (answer: string) =>
    Number(new RegExp(`^doorbuster_code_filter_lookups_total{answer="${answer}"} (\\d+)$`, 'm').exec(text)?.[1]);
  return { unknown: count('unknown'), maybe: count('maybe'), unsure: count('unsure') };
}

/** Look-ups in the table of codes, by what Postgres has counted since it was made. */
async function codeScans(): Promise<number> {
  const { rows } = await service.database.client.query(
    `select (coalesce(idx_scan, 0) + seq_scan)::int as scans from pg_stat_user_tables where relname = 'codes'`,
  );
  return rows[0]?.scans;
}

const MADE_UP = 2_000;
test('made-up codes reach neither Postgres nor Redis', async () => {
  const code = `KNOWN${randomUUID().slice(0, 8).toUpperCase()}`;
  const product = await operator.openCampaign({ code, total_limit: 10 });
  await crowd.redeem([{ code, user: 'ann' }]);
  await until('the filter has heard of everything', async () => {
    const before = (await filterLookups()).unknown;
    await crowd.redeem([{ code: 'NEVERISSUED', user: 'ann' }]);
    return (await filterLookups()).unknown === before + 1;
  });
  const claims: string[] = [];
  // Of the scripts that are given the bitmap of used codes, `reserve` has the hash of holders as well, and
  // `check_redeemable` has no channel.
  const stopWatching = await watchCommands(service.redis.port, (line) => {
    const isClaim = line.includes(':holders"') || !line.includes(':news"');
    if (/"evalsha"/i.test(line) && line.includes(':used"') && isClaim) claims.push(line);
  });
  const before = await filterLookups();
  const madeUp = [
    ...drawCodes(MADE_UP / 2, { prefix: '', symbols: 12 }),
    ...drawCodes(MADE_UP / 2, { prefix: 'KNOWN', symbols: 8 }),
  ];
  const repeatedBefore = crowd.repeated;
  const answers = await crowd.redeem(madeUp.map((made) => ({ code: made, user: `scraper-${made}` })));
  expect(countOutcomes(answers)).toEqual({ '404 code_not_found': MADE_UP });
  const after = await filterLookups();
  const unsure = after.unsure - before.unsure;
  // A request that got no response is repeated, and may count twice.
  const lookups = after.unknown - before.unknown + unsure;
  expect(lookups).toBeGreaterThanOrEqual(MADE_UP);
  expect(lookups).toBeLessThanOrEqual(MADE_UP + crowd.repeated - repeatedBefore);
  expect(after.maybe - before.maybe).toBe(0);
  // Only when Redis was silent for a moment are codes looked up that the filter does not have.
  expect(unsure).toBeLessThan(MADE_UP / 20);
  expect(claims).toEqual([]);
  // The worker looks as well, a few times.
  expect(await codeScans()).toBeLessThan(unsure + 200);

  // The same counters notice an attempt on an existing code.
  expect(countOutcomes(await crowd.redeem([{ code, user: 'bob' }]))).toEqual({ '201 redeemed': 1 });
  await until('the claim was seen', () => claims.length === 1);
  stopWatching();
  await expectStock(operator, product, { total: 10, free: 8, redeemed: 2 });
});

/** MONITOR on a socket of its own, line by line: a client library takes what comes before its reply for another's. */
async function watchCommands(redisPort: number, onLine: (line: string) => void): Promise<() => void> {
  const socket = connect(redisPort, '127.0.0.1');
  let rest = '';
  let watching = false;
  socket.on('data', (chunk) => {
    const lines = (rest + chunk).split('\r\n');
    rest = lines.pop() ?? '';
    watching ||= lines.includes('+OK');
    lines.forEach(onLine);
  });
  socket.write('MONITOR\r\n');
  await until('MONITOR is active', () => watching);
  return () => socket.destroy();
}
