import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { allPersisted, contentsOf, folder, operator, run, sell, service } from '../harness/backup-stage.js';
import { createTestDatabase, startTestServer } from '../harness/engines.js';
import { verdictAtRest } from '../harness/verdict.js';

test('a backup has what an empty database and an empty Redis need', async () => {
  const product = await operator.openCampaign({ total_limit: 20, hold_seconds: 900 });
  await sell(product, 7);
  await allPersisted(product);
  const backup = join(folder, 'first');
  const written = await run('backup', [backup]);
  expect([written.status, written.stderr]).toEqual([0, '']);
  expect(written.stdout).toMatch(/ {3}7 rows .* redemptions\n(?:.|\n)*Backup of [\d.]+ kB written to /);
  expect(existsSync(join(backup, '.partial'))).toBe(false);
  expect([statSync(backup).mode & 0o777, statSync(join(backup, 'redemptions.copy.gz')).mode & 0o777]).toEqual([
    0o700, 0o600,
  ]);
  const [target, redis] = [await createTestDatabase(null), await startTestServer()];
  const engines = { DATABASE_URL: target.url, REDIS_URL: redis.url };
  const restored = await run('restore', [backup], engines);
  expect([restored.status, restored.stderr]).toEqual([0, '']);
  expect(restored.stdout).toContain('The empty database got its schema');
  expect(restored.stdout).toContain('No worker runs. Start one');
  const [found, expected] = [await contentsOf(target.client), await contentsOf(service.database.client)];
  const moving = ['outbox', 'audit_log'];
  for (const name of moving) expect(Number.parseInt(String(found[name]), 10)).toBeGreaterThan(0);
  for (const name of moving) for (const all of [found, expected]) delete all[name];
  expect(found).toEqual(expected);
  const { rows } = await target.client.query<{ next: string }>(
    "select nextval(pg_get_serial_sequence('campaigns', 'no'))::text as next",
  );
  expect(Number(rows[0]?.next)).toBeGreaterThan(1);
  const audited = await run('audit', [], engines);
  expect([audited.status, audited.stdout]).toEqual([0, expect.stringContaining('The chains fit together.')]);
  // The triggers that count and protect are on again.
  await expect(target.client.query('truncate audit_log')).rejects.toThrow();
});

test('a restore over data wants --replace and a choice for Redis, and keeps what Redis has', async () => {
  const product = await operator.openCampaign({ total_limit: 20, hold_seconds: 900 });
  await sell(product, 3);
  await allPersisted(product);
  const backup = join(folder, 'kept');
  expect((await run('backup', [backup])).status).toBe(0);
  await sell(product, 4);
  await allPersisted(product);

  const bare = await run('restore', [backup]);
  expect([bare.status, bare.stderr]).toEqual([
    1,
    expect.stringMatching(/^nothing was restored: the database is not empty \(campaigns: \d/),
  ]);
  const undecided = await run('restore', [backup, '--replace']);
  expect([undecided.status, undecided.stderr]).toEqual([1, expect.stringContaining('--redis keep takes')]);

  const kept = await run('restore', [backup, '--replace', '--redis', 'keep']);
  expect([kept.status, kept.stderr]).toEqual([0, '']);
  expect(kept.stdout).toContain('reservations missing in Postgres: 4 (4 units)');
  expect(kept.stdout).toContain(`ok     ${product}: 7 of 7 reservations in Postgres`);
  await sell(product, 1);
  expect(await verdictAtRest(service.env, product)).toMatchObject({ confirmed: 8, persisted: 8, lost: 0, drift: 0 });
});

test('an error of a file is not reported as one of Postgres', async () => {
  const { status, stderr } = await run('backup', ['/dev/null/backup']);
  expect([status, stderr]).toEqual([2, expect.stringMatching(/^no backup was written: ENOTDIR/)]);
});

test('the commands explain themselves', async () => {
  for (const [command, wrong] of [
    ['backup', [[], [''], ['--to'], ['--to', 'a'], ['a', 'b']]],
    ['restore', [[], ['--from', 'a'], ['a', 'b'], ['a', '--redis', 'maybe'], ['a', '--force']]],
  ] as const) {
    const help = await run(command, ['--help']);
    expect([help.status, help.stdout]).toEqual([0, expect.stringMatching(`^usage: npm run ${command}`)]);
    for (const args of wrong) expect([args, (await run(command, args)).status]).toEqual([args, 2]);
  }
});
