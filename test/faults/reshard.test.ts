import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { Operator } from '../harness/clients.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** A single Redis with four shards: campaigns that move between them, and then another number of shards. */
const SHARDS = 4;
const stage = await Stage.set({ SHARDS: String(SHARDS) });

/** Runs `npm run reshard`. @returns its exit code */
async function reshard(args: readonly string[]): Promise<number> {
  const command = spawn(process.execPath, [join(projectRoot(), 'scripts/reshard.mjs'), ...args], {
    env: stage.env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(command, 'exit')) as [number];
  return code;
}

async function shardOf(product: string): Promise<number> {
  const [row] = await stage.query<{ shard: number | null }>('select shard from campaigns where product_id = $1', [
    product,
  ]);
  return row?.shard ?? shardOfProduct(product as ProductId, SHARDS);
}

/** Opens campaigns until one is in this shard. */
async function openIn(shard: number, terms: Record<string, unknown> = {}): Promise<string> {
  for (;;) {
    const product = await stage.openCampaign({ total_limit: 1_000_000, ...terms });
    if ((await shardOf(product)) === shard) return product;
  }
}

it('moves a campaign to another shard under load, and the campaigns of other shards notice nothing', async () => {
  const [moving, beside] = [await openIn(0), await openIn(3)];
  const [crowd, others] = [stage.crowd(moving, 60), stage.crowd(beside, 60)];
  crowd.start();
  others.start();
  await until('both sell', () => crowd.completed.length >= 50 && others.completed.length >= 50);
  expect(await reshard(['--campaign', moving, '--to-shard', '1'])).toBe(0);
  const sold = crowd.completed.length;
  await until('it sells in its new shard', () => crowd.completed.length >= sold + 50);
  // A repetition finds nothing to do.
  expect(await reshard(['--campaign', moving, '--to-shard', '1'])).toBe(0);
  await Promise.all([crowd.finish(), others.finish()]);
  others.expectServed();
  await stage.expectNothingLost(crowd, moving);
  await stage.expectNothingLost(others, beside);
  expect(await shardOf(moving)).toBe(1);
});

it('a move does not happen when its command was frozen, and a worker has recovered the old shard meanwhile', async () => {
  const product = await openIn(2, { total_limit: 400 });
  const crowd = stage.crowd(product, 40);
  crowd.start();
  await until('it sells', () => crowd.completed.length >= 30);
  const command = spawn(
    process.execPath,
    [join(projectRoot(), 'dist/worker/reshard-command.js'), '--campaign', product, '--to-shard', '3'],
    { env: stage.env, stdio: ['ignore', 'pipe', 'ignore'] },
  );
  let frozen = false;
  command.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (frozen || !text.includes('Postgres has everything')) return;
    command.kill('SIGSTOP');
    frozen = true;
  });
  await until('it is frozen', () => frozen);
  const sold = crowd.completed.length;
  await until('the old shard sells again', () => crowd.completed.length >= sold + 60);
  command.kill('SIGCONT');
  const [code] = (await once(command, 'exit')) as [number];
  expect([code, await shardOf(product)]).toEqual([1, 2]);
  await until('all units are sold', () => crowd.queued.length > 0);
  await crowd.finish();
  expect(crowd.completed.length).toBe(400);
  await stage.expectNothingLost(crowd, product);
});

it('a move that is killed in the middle leaves the campaign in one shard, and is completed by a repetition', async () => {
  for (const moment of ['Postgres has everything', 'its new shard has it', 'every process knows']) {
    const product = await openIn(2);
    const crowd = stage.crowd(product, 40);
    crowd.start();
    await until('it sells', () => crowd.completed.length >= 30);
    const command = spawn(
      process.execPath,
      [join(projectRoot(), 'dist/worker/reshard-command.js'), '--campaign', product, '--to-shard', '3'],
      { env: stage.env, stdio: ['ignore', 'pipe', 'inherit'] },
    );
    command.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes(moment)) command.kill('SIGKILL');
    });
    await once(command, 'exit');
    const sold = crowd.completed.length;
    await until('it sells again', () => crowd.completed.length >= sold + 30);
    expect(await reshard(['--campaign', product, '--to-shard', '3'])).toBe(0);
    await crowd.finish();
    await stage.expectNothingLost(crowd, product);
  }
});

it('changes the number of shards, once the workers are stopped, and loses nothing', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 40);
  crowd.start();
  await until('it sells', () => crowd.completed.length >= 30);
  expect(await reshard(['--to', '8'])).toBe(1);
  for (const worker of stage.workers) await worker.stop();
  await until('no worker counts as running', async () => {
    const rows = await stage.query(
      `select 1 from journal_processes where kind = 'worker' and seen_at > clock_timestamp() - interval '5 seconds'`,
    );
    return rows.length === 0;
  });
  expect(await reshard(['--to', '8'])).toBe(0);
  for (const api of stage.apis) await api.stop();
  stage.env = { ...stage.env, SHARDS: '8' };
  await Promise.all([stage.startWorker(), stage.startApi()]);
  const sold = crowd.completed.length;
  await until('it sells in its new shard', () => crowd.completed.length >= sold + 30);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
  expect((await new Operator(stage.url).stats(product)).held).toBe(crowd.completed.length);
});

it('keeps a process with another number of shards out of service, and says why', async () => {
  await stage.startApi({ ...stage.env, SHARDS: '2', PORT: '0' });
  await until('it says why', async () => {
    const answer = await fetch(`${stage.url}/readyz`);
    const { data } = (await answer.json()) as { data: { checks: Record<string, { detail: string }> } };
    expect(answer.status).toBe(503);
    return data.checks.shard_0?.detail.includes('SHARDS is 2, but this installation has 8');
  });
});
