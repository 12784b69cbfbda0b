import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { type ShardCount, shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { keys } from '../../shared/redis/keys.js';
import { type Answer, Operator, PaymentService, Shopper, sendOnce } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { EngineProxy } from '../harness/proxy.js';
import { ADMIN_SECRET, SERVICE_SECRET } from '../harness/service.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';
import { copyFolder, Stage } from './stage.js';

/**
 * Where campaigns are, and how many shards there are, when Postgres loses it: it is set back to a backup, or a process
 * cannot reach it. Redis proves it, and no request is answered as if the campaign did not exist.
 */
const SHARDS = 2;
const UNITS = 20;
const stage = await Stage.set({ SHARDS: String(SHARDS) }, { onServer: true });
const folder = join(stage.folder, 'postgres');
const backup = join(stage.folder, 'backup');

/** Stops all processes while `work` changes Postgres, and starts one API and one worker. */
async function restart(work: () => Promise<void> | void, env: NodeJS.ProcessEnv = {}): Promise<void> {
  await Promise.all([...stage.apis, ...stage.workers].map((process) => process.stop()));
  await work();
  stage.env = { ...stage.env, PORT: String(await freePort()), ...env };
  await Promise.all([stage.startWorker(), stage.startApi(stage.env, false)]);
}

async function run(...args: readonly string[]): Promise<{ code: number; out: string }> {
  const command = spawn(process.execPath, [join(projectRoot(), 'scripts/command.mjs'), ...args], {
    env: stage.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const output of [command.stdout, command.stderr]) output.on('data', (chunk) => (out += String(chunk)));
  const [code] = (await once(command, 'close')) as [number];
  return { code, out };
}
const repair = (...args: string[]) => run('reconcile', '--after-restore', ...args);
const reshard = (...args: string[]) => run('reshard', ...args);
/** On a busy machine an engine may take a connection too late; the command says then that it can be repeated. */
const moved = (...args: string[]) =>
  until(`reshard ${args.join(' ')} is done`, async () => {
    const { code, out } = await reshard(...args);
    if (code !== 0 && !out.includes('Repeat the command.')) throw new Error(out);
    return code === 0;
  });

const shardOf = async (product: string): Promise<number> => {
  const [row] = await stage.query<{ shard: number | null }>('select shard from campaigns where product_id = $1', [
    product,
  ]);
  return row?.shard ?? shardOfProduct(product as ProductId, SHARDS);
};

/** Opens campaigns until one is where its hash puts it, or beside it. */
async function open(beside: boolean): Promise<string> {
  for (;;) {
    const product = await stage.openCampaign({ total_limit: UNITS, hold_seconds: 600 });
    if (((await shardOf(product)) !== shardOfProduct(product as ProductId, SHARDS)) === beside) return product;
  }
}

type Buyer = { shopper: Shopper; key: string; reservation: string };

/** Each buys a unit. */
async function buy(product: string, count: number): Promise<Buyer[]> {
  const buyers: Buyer[] = [];
  for (let i = 0; i < count; i += 1) {
    const shopper = new Shopper(stage.url, product);
    const key = `key-of-${shopper.user}`;
    let answer: Answer = await shopper.checkoutWithHeader(key);
    await until('it is answered', async () => {
      if (answer.status === 503) answer = await shopper.checkoutWithHeader(key);
      return answer.status !== 503;
    });
    expect(answer.data.status).toBe('completed');
    buyers.push({ shopper, key, reservation: String(answer.data.reservation_id) });
  }
  return buyers;
}

/** The first response to the same key again, without repetitions. */
async function repeat({ shopper, key }: Buyer): Promise<{ status: number; reservation: string | null }> {
  const { token, user, product } = shopper;
  const { status, data } = await sendOnce(`${stage.url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    json: { product_id: product, user_id: user, qty: 1, ...token },
  });
  return { status, reservation: data.reservation_id ?? null };
}

const confirmAt = (url: string, reservation: string) =>
  sendOnce(`${url}/flash-sale/confirm`, {
    method: 'POST',
    headers: { authorization: `Bearer ${SERVICE_SECRET}` },
    json: { reservation_id: reservation },
  });
const confirmOnce = (reservation: string) => confirmAt(stage.url, reservation);

/** Until the repair, a buyer gets the same reservation or 503; never another one, and never 404. */
async function expectNothingUntrue(buyers: readonly Buyer[], paid: Buyer): Promise<void> {
  for (const buyer of buyers) {
    const { status, reservation } = await repeat(buyer);
    expect([200, 503]).toContain(status);
    if (status === 200) expect(reservation).toBe(buyer.reservation);
  }
  expect([200, 503]).toContain((await confirmOnce(paid.reservation)).status);
}

/** After it, all get what they have, the paid one is paid, and no unit is sold twice. */
async function expectAllKept(product: string, buyers: readonly Buyer[], paid: Buyer): Promise<void> {
  for (const buyer of buyers) {
    await until('it is answered', async () => (await repeat(buyer)).status === 200);
    expect((await repeat(buyer)).reservation).toBe(buyer.reservation);
  }
  expect((await new PaymentService(stage.url).confirm(paid.reservation)).status).toBe(200);
  const { verdict } = await ledger(stage.env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  const [row] = await stage.query<{ held: string; redeemed: string }>(
    'select held, redeemed from campaigns where product_id = $1',
    [product],
  );
  expect(Number(row?.held) + Number(row?.redeemed)).toBe(buyers.length);
}

/** The repair writes what Postgres lacks, and its verdict on the campaign is clean. */
async function expectRepaired(product: string): Promise<void> {
  const { code, out } = await repair();
  expect(out).toContain(`ok     ${product}`);
  if (code !== 0) throw new Error(out);
}

const persisted = (product: string, count: number) =>
  until('Postgres has it', async () => {
    const rows = await stage.query(
      'select 1 from redemptions r join campaigns c using (campaign_id) where c.product_id = $1',
      [product],
    );
    return rows.length === count;
  });

/** Waits until the schedule, which looks once a second, has looked so many times. */
async function untilScheduled(times: number): Promise<void> {
  const redis = stage.connectToRedis();
  const looked = async () => {
    const [job] = await redis.keys('*:sweeps:schedule');
    return job ? await redis.hget(job, 'processedOn') : null;
  };
  for (let time = 0; time < times; time += 1) {
    const before = await looked();
    await until('the schedule has looked', async () => (await looked()) !== before);
  }
}

/** Each shard has the version of Postgres. */
const keptInRedis = async () => {
  const redis = stage.connectToRedis();
  await until('each shard knows the version of the map', async () => {
    const [row] = await stage.query<{ text: string }>(`select shards || '|' || map_version as text from installation`);
    const shards = Number.parseInt(String(row?.text), 10) as ShardCount;
    const prefixes = Array.from({ length: shards }, (_, shard) => shardPrefix(shard, shards, false));
    const kept = await redis.mget(prefixes.map((prefix) => `${prefix}${keys.installation}`));
    return kept.every((one) => one === row?.text);
  });
};

test('Postgres was set back to before a move', async () => {
  const product = await open(false);
  const buyers = await buy(product, 5);
  await persisted(product, 5);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  await stage.ready();
  expect(await reshard('--campaign', product, '--to-shard', String(1 - (await shardOf(product))))).toMatchObject({
    code: 0,
  });
  buyers.push(...(await buy(product, 5)));
  const paid = buyers.at(-1) as Buyer;
  await until('it is paid', async () => (await new PaymentService(stage.url).confirm(paid.reservation)).status === 200);
  await persisted(product, 10);
  await keptInRedis();
  await restart(() => stage.withoutPostgres(() => copyFolder(backup, folder)));
  await expectNothingUntrue(buyers, paid);
  const dry = await repair('--dry-run');
  expect(dry).toMatchObject({ code: 1, out: expect.stringContaining(`campaign ${product}\n  shard: `) });
  await expectRepaired(product);
  await expectAllKept(product, buyers, paid);
  await keptInRedis();
});

let saved = 0;
/** A process saves a reservation that it acknowledged in the first history of this shard. @returns its id */
async function saveLate(product: string, shard: number): Promise<string> {
  const [row] = await stage.query<{ no: number; generation: string }>(
    `select c.no, min(h.generation) as generation from campaigns c, journal_histories h
     where c.product_id = $1 and h.shard = $2 group by c.no`,
    [product, shard],
  );
  const reservation = randomUUID();
  saved += 1;
  const fields = {
    ...{ kind: 'reserved', state: 'reserved', no: String(row?.no), reservation, user: 'late', order: 'late' },
    ...{ at: String(Date.now()), due: String(Date.now() + 600_000), qty: '1', slot: '1', line: '0', terms: '1' },
    ...{ code: '', key: '', answer: '', device: '', trace: '' },
  };
  await stage.query(
    `insert into recovered_entries (journal_id, generation, number, fields, process_id, shard)
     values ($1::bigint || '-' || $4::bigint, $1, $4, $2, 'a process', $3)`,
    [row?.generation, fields, shard, 1_000_000 + saved],
  );
  return reservation;
}

const stateOf = async (product: string, reservation: string) => {
  const redis = stage.connectToRedis();
  const prefix = shardPrefix(await shardOf(product), SHARDS, false);
  const record = await redis.hget(`${prefix}${keys.reservations(product as ProductId)}`, reservation);
  redis.disconnect();
  return record?.split('|')[0];
};

test('what a process saves after its campaign has moved gets to the new shard', async () => {
  const product = await open(false);
  const from = await shardOf(product);
  // The last history of the new shard is later than the saved entry.
  await moved('--campaign', product, '--to-shard', String(1 - from));
  await moved('--campaign', product, '--to-shard', String(from));
  await buy(product, 3);
  const reservation = await saveLate(product, 1 - from);
  await until('its shard has it', async () => (await stateOf(product, reservation)) === 'reserved');
  await untilInService(0, 1);
  expect((await ledger(stage.env, product)).verdict).toMatchObject({ persisted: 4, lost: 0, drift: 0 });
});

test('a move is refused before it takes a shard out of service while Postgres lacks places', async () => {
  const product = await open(false);
  await keptInRedis();
  const version = (by: number) => stage.query('update installation set map_version = map_version + $1', [by]);
  await version(-1);
  const { code, out } = await reshard('--campaign', product, '--to-shard', String(1 - (await shardOf(product))));
  expect(out).toContain('stopped: postgres: it was set back and lacks places');
  expect(out).not.toContain('out of service');
  expect(code).toBe(1);
  await version(1);
});

test('Postgres was set back to before a campaign was placed beside its hash', async () => {
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  await until('a campaign is opened', () =>
    stage.openCampaign().then(
      () => true,
      () => false,
    ),
  );
  const product = await open(true);
  const buyers = await buy(product, 5);
  const paid = buyers.at(-1) as Buyer;
  expect((await new PaymentService(stage.url).confirm(paid.reservation)).status).toBe(200);
  await persisted(product, 5);
  await keptInRedis();
  await restart(() => stage.withoutPostgres(() => copyFolder(backup, folder)));
  await expectNothingUntrue(buyers, paid);
  // An operator cannot create it again beside the one that is lost, nor any other one.
  const created = await sendOnce(`${stage.url}/admin/campaigns`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_SECRET}` },
    json: { product_id: product, total_limit: 1 },
  });
  expect(created.status).toBe(503);
  await expectRepaired(product);
  await expectAllKept(product, buyers, paid);
  expect(await shardOf(product)).not.toBe(shardOfProduct(product as ProductId, SHARDS));
  expect((await new Operator(stage.url).call('GET', `/admin/campaigns/${product}`)).status).toBe(200);
});

test('each new campaign is in one shard only, also while the workers do not know its place yet', async () => {
  const redis = stage.connectToRedis();
  const [first, products, seen]: [string, string[], number[]] = [stage.url, [], []];
  await stage.startApi({ ...stage.env, PORT: '0' });
  const second = stage.url;
  stage.url = first;
  // The schedule looks once a second, and each process reads the map twice a second.
  const opened = async () => {
    for (let i = 0; i < 20; i += 1) {
      const product = await stage.openCampaign({ total_limit: UNITS });
      products.push(product);
      seen.push((await sendOnce(`${second}/flash-sale/campaign?product_id=${product}`)).status);
    }
  };
  await Promise.all([opened(), opened(), opened(), opened()]);
  await stage.apis.pop()?.stop();
  // A created campaign is known everywhere, or not yet: 503. It is never unknown.
  expect(seen.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(seen.filter((status) => status === 200).length).toBeGreaterThan(40);
  const [row] = await stage.query<{ map_version: string }>('select map_version from installation');
  await until('the workers know the places', async () => {
    const [known] = await stage.query<{ version: string }>(
      `select min(map_version) as version from journal_processes
       where kind = 'worker' and seen_at > clock_timestamp() - interval '5 seconds'`,
    );
    return known?.version === row?.map_version;
  });
  const places = await Promise.all(products.map((product) => redis.keys(`*{${product}}:campaign`)));
  expect(places.filter(({ length }) => length !== 1)).toEqual([]);
});

/** Waits until the API uses Redis in these shards alone. Of the journal, it may say that Postgres was set back. */
const untilInService = (...expected: readonly number[]) =>
  until('these shards are in service', async () => {
    const { data } = (await (await fetch(`${stage.url}/readyz`)).json()) as { data: { checks: Record<string, Check> } };
    const shards = Object.entries(data.checks).filter(([name]) => name.startsWith('shard_'));
    const used = shards.filter(([, { detail }]) => !/^(redis|scripts):/.test(detail));
    return used.map(([name]) => name).join() === expected.map((shard) => `shard_${shard}`).join();
  });
type Check = { ok: boolean; detail: string };

/** The key of a campaign in a shard, as Redis has it. */
const campaignIn = (shard: number, product: string) =>
  `${shardPrefix(shard, SHARDS, false)}${keys.campaign(product as ProductId)}`;

test('a copy of a campaign that a fault left in its old shard is gone before Redis serves again', async () => {
  const product = await open(false);
  const from = await shardOf(product);
  const buyers = await buy(product, 3);
  await persisted(product, 3);
  const redis = stage.connectToRedis();
  const [no] = (await stage.query<{ no: number }>('select no from campaigns where product_id = $1', [product])).map(
    (row) => row.no,
  );
  const copy = (await redis.dumpBuffer(campaignIn(from, product))) as Buffer;
  await moved('--campaign', product, '--to-shard', String(1 - from));
  // As after a fail-over to a replica that lacks the removal.
  await redis.restore(campaignIn(from, product), 0, copy);
  await redis.hset(`${shardPrefix(from, SHARDS, false)}${keys.directory}`, String(no), product);
  stage.redis.kill('SIGKILL');
  await stage.redis.exited;
  await stage.startRedis();
  await stage.ready();
  const again = stage.connectToRedis();
  await until('both shards serve', async () => (await repeat(buyers[0] as Buyer)).status === 200);
  await untilInService(0, 1);
  expect(await again.keys(`*{${product}}:campaign`)).toEqual([campaignIn(1 - from, product)]);
  await expectAllKept(product, buyers, buyers[0] as Buyer);
});

test('a shard that was out of service when Postgres was set back keeps what it has, and is repaired', async () => {
  const product = await open(false);
  const from = await shardOf(product);
  const buyers = await buy(product, 3);
  await persisted(product, 3);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  await stage.ready();
  await moved('--campaign', product, '--to-shard', String(1 - from));
  buyers.push(...(await buy(product, 3)));
  const paid = buyers.at(-1) as Buyer;
  expect((await new PaymentService(stage.url).confirm(paid.reservation)).status).toBe(200);
  await persisted(product, 6);
  await keptInRedis();
  await restart(async () => {
    await stage.withoutPostgres(() => copyFolder(backup, folder));
    // A worker that was killed while it filled the shard has left it so.
    await stage.connectToRedis().del(`${shardPrefix(1 - from, SHARDS, false)}${keys.epoch}`);
  });
  await untilInService(0, 1);
  await expectNothingUntrue(buyers, paid);
  await expectRepaired(product);
  await expectAllKept(product, buyers, paid);
  expect(await shardOf(product)).toBe(1 - from);
});

test('processes that run through load no second copy of a campaign whose place Postgres has lost', async () => {
  const old = await open(false);
  const from = await shardOf(old);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  await stage.ready();
  await until('a campaign is opened', () =>
    stage.openCampaign().then(
      () => true,
      () => false,
    ),
  );
  const placed = await open(true);
  const buyers = await buy(placed, 3);
  await moved('--campaign', old, '--to-shard', String(1 - from));
  const others = await buy(old, 3);
  await persisted(placed, 3);
  await persisted(old, 3);
  await keptInRedis();
  const redis = stage.connectToRedis();
  const places = async () => [
    ...(await redis.keys(`*{${placed}}:campaign`)),
    ...(await redis.keys(`*{${old}}:campaign`)),
  ];
  const proven = await places();
  expect(proven.length).toBe(2);
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  await untilScheduled(3);
  expect(await places()).toEqual(proven);
  await expectRepaired(placed);
  await expectAllKept(placed, buyers, buyers[0] as Buyer);
  await expectAllKept(old, others, others[0] as Buyer);
  expect(await places()).toEqual(proven);
});

const create = () =>
  sendOnce(`${stage.url}/admin/campaigns`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_SECRET}` },
    json: { product_id: `created-${randomUUID()}`, total_limit: 1 },
  });

/** What no engine has any more is unknown, and operators create campaigns. */
async function expectMapKnown(): Promise<void> {
  const unknown = `${stage.url}/flash-sale/campaign?product_id=no-such-product`;
  await until('an unknown product is unknown', async () => (await sendOnce(unknown)).status === 404);
  await until('a campaign is created', async () => (await create()).status === 201);
}

test.each(['run through', 'are replaced'])(
  'Postgres is set back, Redis returns empty and workers %s: live APIs take the map of Postgres',
  async (workers) => {
    const product = await open(false);
    const buyers = await buy(product, 3);
    await persisted(product, 3);
    await stage.withoutPostgres(() => copyFolder(folder, backup));
    await stage.ready();
    const to = String(1 - (await shardOf(product)));
    await moved('--campaign', product, '--to-shard', to);
    await open(true);
    await keptInRedis();
    if (workers === 'are replaced') await Promise.all(stage.workers.splice(0).map((worker) => worker.stop()));
    await stage.withoutPostgres(() => copyFolder(backup, folder));
    stage.redis.kill('SIGKILL');
    await stage.redis.exited;
    await stage.removeRedisData();
    await stage.startRedis();
    if (workers === 'are replaced') await stage.startWorker();
    await expectAllKept(product, buyers, buyers[0] as Buyer);
    await expectMapKnown();
    await restart(() => {});
    await expectMapKnown();
    await expectAllKept(product, buyers, buyers[0] as Buyer);
  },
);

/** Starts another API, and cuts it off from Postgres. */
async function cutOffApi(): Promise<{ own: string; url: string; proxy: EngineProxy }> {
  const proxy = await EngineProxy.before(stage.postgres.port);
  const url = stage.url;
  const cutOff = new URL(stage.postgres.url);
  cutOff.port = String(proxy.port);
  await stage.startApi({ ...stage.env, PORT: '0', DATABASE_URL: cutOff.href });
  const own = stage.url;
  stage.url = url;
  await proxy.swallow();
  return { own, url, proxy };
}

test('an API that is cut off from Postgres never says that a campaign does not exist', async () => {
  const { own, url, proxy } = await cutOffApi();
  const product = await open(true);
  const shopper = new Shopper(own, product);
  shopper.token = await new Shopper(url, product).getToken();
  const view = await sendOnce(`${own}/flash-sale/campaign?product_id=${product}`);
  const [buyer] = await buy(product, 1);
  expect(view.status).toBe(503);
  stage.url = own;
  expect((await repeat(buyer as Buyer)).status).toBe(503);
  expect((await confirmOnce(String(buyer?.reservation))).status).not.toBe(404);
  // What it knows goes on.
  await proxy.heal();
  await until('it knows the campaign', async () => (await repeat(buyer as Buyer)).status === 200);
  expect((await sendOnce(`${own}/flash-sale/campaign?product_id=no-such-product`)).status).toBe(404);
  stage.url = url;
  await stage.apis.pop()?.stop();
  await proxy.close();
});

test('an API that is cut off from Postgres takes no user of a campaign with buckets for unknown', async () => {
  const { own, url, proxy } = await cutOffApi();
  const waiting_room = { enabled: true };
  const product = await stage.openCampaign({ total_limit: 8, hold_seconds: 600, buckets: 2, waiting_room });
  const shoppers = Array.from({ length: 16 }, () => new Shopper(url, product));
  for (const shopper of shoppers) {
    const answer = await shopper.checkout();
    expect([200, 202]).toContain(answer.status);
  }
  const seen = new Set<string>();
  for (const [place, shopper] of shoppers.entries()) {
    const proof = { 'x-ticket': String(shopper.ticket) };
    const { data } = await shopper.queueStatus(proof);
    const { user } = shopper;
    const query = new URLSearchParams({ product_id: product, user_id: user });
    const status = await sendOnce(`${own}/flash-sale/queue-status?${query}`, { headers: proof });
    const final =
      place < 8
        ? await confirmAt(own, String(data.reservation_id))
        : await sendOnce(`${own}/flash-sale/queue`, { method: 'DELETE', headers: proof });
    expect([user, status.status === 503 || status.data.status === data.status]).toEqual([user, true]);
    expect([200, 503]).toContain(final.status);
    seen.add(`${data.status} ${final.status}`);
  }
  // Of both, some users are in the other bucket.
  expect([...seen]).toEqual(expect.arrayContaining(['completed 503', 'queued 503']));
  await proxy.heal();
  const left = shoppers.at(-1) as Shopper;
  const leave = () =>
    sendOnce(`${own}/flash-sale/queue`, { method: 'DELETE', headers: { 'x-ticket': String(left.ticket) } });
  await until('it knows the buckets', async () => (await leave()).status === 200);
  await stage.apis.pop()?.stop();
  await proxy.close();
});

test('Postgres was set back to before the number of shards changed, and the operator follows the old number', async () => {
  const product = await open(false);
  const buyers = await buy(product, 5);
  await persisted(product, 5);
  await stage.withoutPostgres(() => copyFolder(folder, backup));
  await stage.ready();
  await Promise.all(stage.workers.map((worker) => worker.stop()));
  await until('no worker counts as running', async () => {
    const rows = await stage.query(
      `select 1 from journal_processes where kind = 'worker' and seen_at > clock_timestamp() - interval '5 seconds'`,
    );
    return rows.length === 0;
  });
  await moved('--to', '4');
  await restart(() => {}, { SHARDS: '4' });
  await stage.ready();
  buyers.push(...(await buy(product, 5)));
  const paid = buyers.at(-1) as Buyer;
  expect((await new PaymentService(stage.url).confirm(paid.reservation)).status).toBe(200);
  await persisted(product, 10);
  await keptInRedis();
  await stage.withoutPostgres(() => copyFolder(backup, folder));
  // Processes that run through go on in the shards that Postgres lacks.
  await untilInService(2, 3);
  await restart(() => {}, { SHARDS: String(SHARDS) });
  for (const buyer of buyers.slice(0, 2)) expect((await repeat(buyer)).status).toBe(503);
  expect((await confirmOnce(paid.reservation)).status).toBe(503);
  await until('the operator can read what to run', async () =>
    (await (await fetch(`${stage.url}/readyz`)).text()).includes('npm run reconcile -- --after-restore'),
  );
  expect(await repair('--dry-run')).toMatchObject({
    code: 1,
    out: expect.stringContaining('shards: 4 in Redis, 2 in Postgres'),
  });
  await restart(() => {}, { SHARDS: '4' });
  for (const buyer of buyers.slice(0, 2)) expect((await repeat(buyer)).status).toBe(503);
  await expectRepaired(product);
  await stage.ready();
  await expectAllKept(product, buyers, paid);
});
