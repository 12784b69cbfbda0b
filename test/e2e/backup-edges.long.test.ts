import { spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { allPersisted, folder, operator, redeem, run, sell, service } from '../harness/backup-stage.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { createTestDatabase, startTestServer } from '../harness/engines.js';
import { askToErase, erase } from '../harness/erasure.js';
import { ON_CLUSTER } from '../harness/redis-mode.js';
import { startApiProcess, startWorkerProcess } from '../harness/service.js';
import { checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { keysWith, tablesWith } from '../harness/stored-text.js';
import { until } from '../harness/until.js';
import { verdictAtRest } from '../harness/verdict.js';

test('a restore that discards Redis goes back to the moment of the backup, or is refused on a cluster', async () => {
  const product = await operator.openCampaign({ total_limit: 20, hold_seconds: 900 });
  await sell(product, 3);
  await allPersisted(product);
  const backup = join(folder, 'discarded');
  expect((await run('backup', [backup])).status).toBe(0);
  await sell(product, 4);
  const gone = `GONE${randomUUID().slice(0, 8).toUpperCase()}`;
  await operator.openCampaign({ code: gone, total_limit: 5 });
  expect((await redeem(gone)).status).toBe(201);
  await allPersisted(product);
  const restored = await run('restore', [backup, '--replace', '--redis', 'discard']);
  if (ON_CLUSTER) {
    expect([restored.status, restored.stderr]).toEqual([1, expect.stringContaining('does not empty a cluster')]);
    expect(await operator.stats(product)).toMatchObject({ total: 20, free: 13, held: 7, drift: 0 });
    return;
  }
  expect([restored.status, restored.stderr]).toEqual([0, '']);
  expect(restored.stdout).toContain(`ok     ${product}: 3 of 3 reservations in Postgres`);
  await until('the API serves again', async () => (await fetch(`${service.url}/readyz`)).status === 200);
  expect(await operator.stats(product)).toMatchObject({ total: 20, free: 17, held: 3, drift: 0 });
  expect(await sell(product, 1)).toEqual([200]);
  // The next campaign gets the number of the one that is gone.
  const code = `NEXT${randomUUID().slice(0, 8).toUpperCase()}`;
  await operator.openCampaign({ code, total_limit: 5 });
  expect(await redeem(gone)).toMatchObject({ status: 404, body: { code: 'code_not_found' } });
  expect((await redeem(code)).data.code).toBe(code);
  expect(await verdictAtRest(service.env, product)).toMatchObject({ confirmed: 4, persisted: 4, lost: 0, drift: 0 });
});

test('a restore that fails on the way changes nothing', async () => {
  const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
  await sell(product, 2);
  await allPersisted(product);
  const [backup, wrong] = [join(folder, 'whole'), join(folder, 'wrong')];
  expect((await run('backup', [backup])).status).toBe(0);
  cpSync(backup, wrong, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(wrong, 'manifest.json'), 'utf8'));
  const table = manifest.tables.find(({ name }: { name: string }) => name === 'redemptions');
  writeFileSync(join(wrong, table.file), gzipSync('no row of redemptions\n'));
  const args = ['--replace', '--redis', 'keep'];
  const damaged = await run('restore', [wrong, ...args]);
  expect([damaged.status, damaged.stderr]).toEqual([1, 'nothing was restored: redemptions.copy.gz is damaged\n']);
  table.sha256 = createHash('sha256')
    .update(readFileSync(join(wrong, table.file)))
    .digest('hex');
  writeFileSync(join(wrong, 'manifest.json'), JSON.stringify(manifest));
  const failed = await run('restore', [wrong, ...args]);
  expect([failed.status, failed.stderr]).toEqual([2, expect.stringMatching(/^nothing was restored: /)]);
  expect(await verdictAtRest(service.env, product)).toMatchObject({ persisted: 2, lost: 0, drift: 0 });
  const repeated = await run('restore', [backup, ...args]);
  expect(repeated.status).toBe(0);
});

test('a folder with files is not written to, one without a manifest is not read, and an interrupted backup is replaced', async () => {
  const used = join(folder, 'used');
  mkdirSync(used);
  writeFileSync(join(used, 'notes.txt'), 'mine');
  const refused = await run('backup', [used]);
  expect([refused.status, refused.stderr]).toEqual([1, `no backup was written: ${used} is not empty\n`]);
  const none = await run('restore', [used]);
  expect([none.status, none.stderr]).toEqual([1, expect.stringContaining('so it is not a finished backup')]);
  // The name of another backup, and not an unfinished one of `again`.
  const other = join(folder, 'again.partial');
  mkdirSync(other);
  writeFileSync(join(other, 'manifest.json'), '{}');
  const again = join(folder, 'again');
  mkdirSync(join(again, '.partial'), { recursive: true });
  writeFileSync(join(again, '.partial', 'campaigns.copy.gz'), 'half');
  // One of them had left the folder of unfinished ones already.
  writeFileSync(join(again, 'codes.copy.gz'), 'whole');
  expect((await run('backup', [again])).status).toBe(0);
  expect([existsSync(join(again, '.partial')), existsSync(join(again, 'manifest.json'))]).toEqual([false, true]);
  expect(existsSync(join(other, 'manifest.json'))).toBe(true);
});

test('a second backup into a folder is refused while the first one runs, and a signal ends the backup', async () => {
  const { client: sql } = service.database;
  const twice = join(folder, 'twice');
  const command = join(projectRoot(), 'scripts/command.mjs');
  const connected = async () => {
    // A transaction sees the activity of its first look otherwise.
    await sql.query('select pg_stat_clear_snapshot()');
    const { rows } = await sql.query(
      `select wait_event from pg_stat_activity where datname = current_database() and application_name = 'doorbuster-backup'`,
    );
    return rows;
  };
  const waiting = async () => (await connected()).some(({ wait_event }) => wait_event === 'relation');
  const lock = 'begin; lock table code_staging in access exclusive mode';
  await sql.query(lock);
  const killed = spawn(process.execPath, [command, 'backup', twice], { env: service.env, stdio: 'ignore' });
  await until('it waits for the table', waiting);
  killed.kill('SIGTERM');
  expect(await once(killed, 'exit')).toEqual([143, null]);
  await sql.query('rollback');
  await until('its connection has ended', async () => (await connected()).length === 0);

  await sql.query(lock);
  const first = run('backup', [twice]);
  await until('the first one waits for the table', waiting);
  const second = await run('backup', [twice]);
  expect([second.status, second.stderr]).toEqual([
    1,
    `no backup was written: another backup is being written to ${twice}\n`,
  ]);
  await sql.query('rollback');
  expect((await first).status).toBe(0);
  expect((await run('restore', [twice])).stdout).toContain('its files are whole');
});

test('a table of another program in the database of the backup keeps no empty database from getting the rest', async () => {
  const { client: sql } = service.database;
  const backup = join(folder, 'with-others');
  await sql.query('create table shop_report (n serial primary key); insert into shop_report default values');
  expect((await run('backup', [backup])).status).toBe(0);
  await sql.query('drop table shop_report');
  const [target, redis] = [await createTestDatabase(null), await startTestServer()];
  const engines = { DATABASE_URL: target.url, REDIS_URL: redis.url };
  const { status, stdout, stderr } = await run('restore', [backup], engines);
  expect([status, stderr]).toEqual([0, '']);
  expect(stdout).toContain(
    '0 rows  shop_report (left out: another program has put it into the database of the backup)',
  );
  const { rows } = await target.client.query('select count(*)::int as n from campaigns');
  expect(rows[0].n).toBeGreaterThan(0);
});

test('a backup waits for a restore that runs', async () => {
  const { client: sql } = service.database;
  const [{ rows: format }, met] = [await sql.query('select * from installation'), join(folder, 'met')];
  await sql.query('begin; lock table installation in access exclusive mode');
  const running = run('backup', [met]);
  await until('it waits for the restore', async () => {
    await sql.query('select pg_stat_clear_snapshot()');
    const { rows } = await sql.query(
      `select 1 from pg_stat_activity where datname = current_database() and application_name = 'doorbuster-backup'
         and wait_event = 'relation'`,
    );
    return rows.length > 0;
  });
  await sql.query('create temporary table kept on commit drop as select * from installation');
  await sql.query('truncate installation; insert into installation select * from kept; commit');
  const { status, stderr } = await running;
  expect([status, stderr]).toEqual([0, '']);
  expect((await sql.query('select * from installation')).rows).toEqual(format);
});

test('a restore keeps the owner epoch that a region has got since the backup', async () => {
  const { client: sql } = service.database;
  const backup = join(folder, 'of-a-region');
  await sql.query("update installation set region = 'us', region_epoch = 1");
  expect((await run('backup', [backup])).status).toBe(0);
  await sql.query('update installation set region_epoch = 5');
  expect((await run('restore', [backup, '--replace', '--redis', 'keep'])).status).toBe(0);
  const { rows } = await sql.query('select region, region_epoch from installation');
  expect(rows).toEqual([{ region: 'us', region_epoch: '5' }]);
  await sql.query('update installation set region = null, region_epoch = null');
});

test('a restore erases again who was erased since the backup', async () => {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900 });
  const [gone, stays] = gatherShoppers(service.url, product, 2);
  if (!gone || !stays) throw new Error('two shoppers are needed');
  for (const shopper of [gone, stays]) {
    const { data } = await shopper.checkout();
    await new PaymentService(service.url).confirm(String(data.reservation_id));
  }
  await verdictAtRest(service.env, product);
  // The backup has the request, which waits for the end of the campaign.
  await askToErase(operator, gone.user, false);
  const backup = join(folder, 'of-an-erased-user');
  expect((await run('backup', [backup])).status).toBe(0);
  await erase(operator, gone.user);
  const { status, stdout } = await run('restore', [backup, '--replace', '--redis', 'discard']);
  expect([status, stdout]).toEqual([0, expect.stringMatching(/ 1 rows {2}erasures \(users who were erased since/)]);
  const { client: sql } = service.database;
  await until('the user is erased again', async () => {
    const { rows } = await sql.query('select 1 from erasures where user_id is not null');
    return rows.length === 0;
  });
  expect(await tablesWith(sql, gone.user)).toEqual({});
  expect(Object.keys(await tablesWith(sql, stays.user))).toContain('redemptions');
  // Lists of idempotency keys expire on their own.
  const kept = await keysWith(service.redis.client, gone.user);
  expect(kept.filter((name) => !/^db1:r:\d/.test(name))).toEqual([]);
  expect(await verdictAtRest(service.env, product)).toMatchObject({ confirmed: 2, persisted: 2, lost: 0, drift: 0 });
});

test('a folder into which another program writes meanwhile gets no backup', async () => {
  const { client: sql } = service.database;
  const shared = join(folder, 'shared');
  await sql.query('begin; lock table code_staging in access exclusive mode');
  const running = run('backup', [shared]);
  await until('its files are being written', () => existsSync(join(shared, '.partial', 'campaigns.copy.gz')));
  writeFileSync(join(shared, 'notes.txt'), 'mine');
  await sql.query('rollback');
  const { status, stderr } = await running;
  expect([status, stderr]).toEqual([1, `no backup was written: another program has written to ${shared} meanwhile\n`]);
  expect([existsSync(join(shared, 'manifest.json')), readFileSync(join(shared, 'notes.txt'), 'utf8')]).toEqual([
    false,
    'mine',
  ]);
});

test('a backup has what no worker has written to Postgres', async () => {
  const product = await operator.openCampaign({ total_limit: 4, hold_seconds: 900 });
  await sell(product, 1);
  await allPersisted(product);
  await service.worker.kill();
  const bought = await checkoutInTurn(gatherShoppers(service.url, product, 3));
  const ids = bought.map(({ data }) => String(data.reservation_id));
  expect((await new PaymentService(service.url).confirm(String(ids[0]), 'paid')).status).toBe(200);
  const backup = join(folder, 'unwritten');
  const written = await run('backup', [backup]);
  expect([written.status, written.stdout]).toEqual([0, expect.stringMatching(/ {3}4 rows .* journal of Redis\n/)]);

  const [target, redis] = [await createTestDatabase(null), await startTestServer()];
  const env = { ...service.env, DATABASE_URL: target.url, REDIS_URL: redis.url };
  expect((await run('restore', [backup], env)).status).toBe(0);
  const worker = await startWorkerProcess(env);
  const { process: api, url } = await startApiProcess(env);
  const payments = new PaymentService(url);
  expect((await payments.confirm(String(ids[1]), 'later')).status).toBe(200);
  expect((await payments.confirm(String(ids[0]), 'paid')).status).toBe(200);
  expect(await new Operator(url).stats(product)).toMatchObject({ free: 0, held: 2, redeemed: 2 });
  const whole = { confirmed: 4, persisted: 4, lost: 0, duplicated: 0, over_cap: 0, drift: 0 };
  expect(await verdictAtRest(env, product)).toMatchObject(whole);
  await Promise.all([api.stop(), worker.stop()]);

  // Redis has it, too, so that nothing is applied twice.
  const kept = await run('restore', [backup, '--replace', '--redis', 'keep']);
  expect([kept.status, kept.stderr]).toEqual([0, '']);
  // The entries are in the journal, and since the restore also among those to be recovered.
  const both = join(folder, 'both');
  expect((await run('backup', [both])).stdout).toMatch(/ {3}[1-9] rows .* journal of Redis\n/);
  const refilled = await run('restore', [both, '--replace', '--redis', 'keep']);
  expect([refilled.status, refilled.stderr]).toEqual([0, '']);
  const again = await startWorkerProcess(service.env);
  expect(await verdictAtRest(service.env, product)).toMatchObject(whole);
  await again.stop();
});

test('without Redis a backup is refused, unless it is one of Postgres alone', async () => {
  const env = { ...service.env, REDIS_URL: 'redis://127.0.0.1:9/0' };
  const refused = await run('backup', [join(folder, 'alone')], env);
  expect([refused.status, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/Redis cannot be reached.*--postgres-only/),
  ]);
  expect((await run('backup', [join(folder, 'alone'), '--postgres-only'], env)).status).toBe(0);
});
