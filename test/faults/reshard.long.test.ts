import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { generateCodes } from '../harness/pool-codes.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** A single Redis with four shards: campaigns that move between them, and then another number of shards. */
const SHARDS = 4;
const stage = await Stage.set({ SHARDS: String(SHARDS) });

/** Runs `npm run reshard`. @returns its exit code */
async function reshard(args: readonly string[]): Promise<number> {
  const command = spawn(process.execPath, [join(projectRoot(), 'scripts/command.mjs'), 'reshard', ...args], {
    env: stage.env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(command, 'exit')) as [number];
  return code;
}

/** Runs another command of operators. */
async function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const main = [join(projectRoot(), 'scripts/command.mjs'), command, ...args];
  const child = spawn(process.execPath, main, { env: { ...stage.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code: code as number, stdout, stderr };
}

/** Repeats the command where it was stopped because an engine was away for a moment, as it says. */
const untilResharded = (args: readonly string[]) =>
  until(`${args.join(' ')} is done`, async () => (await reshard(args)) === 0);

/** Runs `npm run reshard`, which refuses. @returns what it says about that */
const refusalOf = async (args: readonly string[]) => {
  const all = new Set<string>();
  const isFinal = async () => {
    const said = await stopOf(args);
    all.add(said);
    return !said.includes('Repeat the command.') && said;
  };
  return until('it refuses for good', isFinal).catch((error) => {
    throw new Error(`${error.message}; it said: ${[...all].join('')}`, { cause: error });
  });
};

async function stopOf(args: readonly string[]): Promise<string> {
  const command = spawn(process.execPath, [join(projectRoot(), 'scripts/command.mjs'), 'reshard', ...args], {
    env: stage.env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [said, [code]] = await Promise.all([text(command.stderr), once(command, 'exit')]);
  expect(code).toBe(1);
  return said;
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
  await untilResharded(['--campaign', moving, '--to-shard', '1']);
  const sold = crowd.completed.length;
  await until('it sells in its new shard', () => crowd.completed.length >= sold + 50);
  // A repetition finds nothing to do.
  await untilResharded(['--campaign', moving, '--to-shard', '1']);
  await Promise.all([crowd.finish(), others.finish()]);
  stage.expectServed(others);
  await stage.expectNothingLost(crowd, moving);
  await stage.expectNothingLost(others, beside);
  expect(await shardOf(moving)).toBe(1);
});

it('a move does not happen when its command was frozen, and a worker has recovered the old shard meanwhile', async () => {
  for (;;) {
    const product = await openIn(2, { total_limit: 1_000 });
    const crowd = stage.crowd(product, 40);
    crowd.start();
    await until('it sells', () => crowd.completed.length >= 30);
    const command = spawn(
      process.execPath,
      [join(projectRoot(), 'dist/commands/reshard.js'), '--campaign', product, '--to-shard', '3'],
      { env: stage.env, stdio: ['ignore', 'pipe', 'ignore'] },
    );
    let frozen = false;
    command.stdout.setEncoding('utf8').on('data', (line: string) => {
      if (frozen || !line.includes('Postgres has everything')) return;
      command.kill('SIGSTOP');
      frozen = true;
    });
    await until('it is frozen', () => frozen);
    const sold = crowd.completed.length;
    await until('it sells again', () => crowd.completed.length >= sold + 60);
    const wasTooLate = (await shardOf(product)) === 3;
    command.kill('SIGCONT');
    const [code] = (await once(command, 'exit')) as [number];
    if (!wasTooLate) expect([code, await shardOf(product)]).toEqual([1, 2]);
    await until('all units are sold', () => crowd.queued.length > 0);
    await crowd.finish();
    expect(crowd.completed.length).toBe(1_000);
    await stage.expectNothingLost(crowd, product);
    // On a busy machine the command may record the move before the signal reaches it.
    if (!wasTooLate) return;
  }
});

it('a move that is killed in the middle leaves the campaign in one shard, and is completed by a repetition', async () => {
  for (const moment of ['Postgres has everything', 'its new shard has it', 'every process knows']) {
    const product = await openIn(2);
    const crowd = stage.crowd(product, 40);
    crowd.start();
    await until('it sells', () => crowd.completed.length >= 30);
    const command = spawn(
      process.execPath,
      [join(projectRoot(), 'dist/commands/reshard.js'), '--campaign', product, '--to-shard', '3'],
      { env: stage.env, stdio: ['ignore', 'pipe', 'inherit'] },
    );
    command.stdout.setEncoding('utf8').on('data', (line: string) => {
      if (line.includes(moment)) command.kill('SIGKILL');
    });
    await once(command, 'exit');
    const sold = crowd.completed.length;
    await until('it sells again', () => crowd.completed.length >= sold + 30);
    await untilResharded(['--campaign', product, '--to-shard', '3']);
    await crowd.finish();
    await stage.expectNothingLost(crowd, product);
  }
});

/** Changes the number of shards as docs/shards.md says. */
async function change(shards: number): Promise<void> {
  for (const worker of stage.workers) await worker.stop();
  await until('no worker counts as running', async () => {
    const rows = await stage.query(
      `select 1 from journal_processes where kind = 'worker' and seen_at > clock_timestamp() - interval '5 seconds'`,
    );
    return rows.length === 0;
  });
  await untilResharded(['--to', String(shards)]);
  for (const api of stage.apis) await api.stop();
  stage.env = { ...stage.env, SHARDS: String(shards) };
  await Promise.all([stage.startWorker(), stage.startApi()]);
  await until('each shard is in service', async () => {
    const { data } = (await (await fetch(`${stage.url}/readyz`)).json()) as { data: { checks: Record<string, Check> } };
    const all = Object.entries(data.checks).filter(([name]) => name.startsWith('shard_'));
    return all.length === shards && all.every(([, { ok }]) => ok);
  });
}
type Check = { ok: boolean };

it('changes the number of shards, once the workers are stopped, and loses nothing', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 40);
  crowd.start();
  await until('it sells', () => crowd.completed.length >= 30);
  expect(await reshard(['--to', '8'])).toBe(1);
  await change(8);
  const sold = crowd.completed.length;
  await until('it sells in its new shard', () => crowd.completed.length >= sold + 30);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
  expect((await new Operator(stage.url).stats(product)).held).toBe(crowd.completed.length);
});

it('takes the buckets of divided campaigns along, with their line, their codes and the units on their way', async () => {
  const payments = new PaymentService(stage.url);
  const inBuckets = { total_limit: 40, buckets: 4, hold_seconds: 3_600 };
  const shared = await stage.openCampaign(inBuckets);
  const pool = await stage.openCampaign({ ...inBuckets, type: 'pool' });
  await generateCodes(new Operator(stage.url), pool, 40);
  const crowds = [shared, pool].map((product) => ({ product, crowd: stage.crowd(product, 40) }));
  for (const { crowd } of crowds) crowd.start();
  await until('users wait', () => crowds.every(({ crowd }) => crowd.queued.length >= 30));
  const given = crowds.map(({ crowd }) => crowd.completed.map(({ body }) => String(body.data.reservation_id)));
  const release = async (count: number) => {
    for (const ids of given)
      for (const id of ids.splice(0, count))
        await until('a unit is released', async () => (await payments.release(id)).status === 200);
  };
  // 4 after 8: fewer shards, and each bucket in another one again.
  for (const shards of [4, 16]) {
    await release(6);
    await change(shards);
    await release(6);
  }
  for (const { crowd } of crowds) await crowd.finish();
  for (const { crowd, product } of crowds) {
    await until('every unit is given', async () => (await new Operator(stage.url).stats(product)).held === 40);
    await stage.expectNothingLost(crowd, product);
    const passedOver = await stage.query(
      `select w.line_no from waiting_tickets w join campaigns c using (campaign_id)
       where c.product_id = $1 and w.status = 'waiting' and exists (select 1 from waiting_tickets p
         where p.campaign_id = w.campaign_id and p.status = 'promoted' and p.line_no > w.line_no)`,
      [product],
    );
    expect(passedOver).toEqual([]);
  }
  expect(await refusalOf(['--to', '2'])).toBe(
    `stopped: ${[shared, pool].sort()[0]} is divided into 4 buckets, and each needs a shard of its own\n`,
  );
  expect(await refusalOf(['--campaign', 'none', '--to-shard', '1'])).toBe('stopped: there is no campaign for none\n');
});

it('keeps a process with another number of shards out of service, and says why', async () => {
  await stage.startApi({ ...stage.env, SHARDS: '2', PORT: '0' }, false);
  await until('it says why', async () => {
    const answer = await fetch(`${stage.url}/readyz`);
    const { data } = (await answer.json()) as { data: { checks: Record<string, { detail: string }> } };
    expect(answer.status).toBe(503);
    return data.checks.shard_0?.detail.includes(
      'SHARDS is 2, but this installation has 16. Set it to 16, or run: npm run reshard -- --to 2',
    );
  });
});

it('a restore into an empty database sees that Redis has data under another number of shards', async () => {
  const backup = join(stage.folder, 'backup');
  expect((await run('backup', [backup])).code).toBe(0);
  await stage.query('create database empty');
  const DATABASE_URL = stage.env.DATABASE_URL?.replace(/[^/]+$/, 'empty');
  const { code, stderr } = await run('restore', [backup], { DATABASE_URL });
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^nothing was restored: Redis has the sale up to now/)]);
});

it('a restore of a backup with another number of shards says which one the processes need', async () => {
  const backup = join(stage.folder, 'backup-of-16');
  expect((await run('backup', [backup])).code).toBe(0);
  const manifest = await stage.query<{ shards: number }>('select shards from installation');
  expect(manifest).toEqual([{ shards: 16 }]);
  for (const process of [...stage.workers, ...stage.apis]) await process.stop();
  await untilResharded(['--to', '32']);
  await stage.startWorker({ ...stage.env, SHARDS: '32' });
  await until('the worker serves 32 shards', async () => {
    const [row] = await stage.query<{ n: number }>(
      "select count(*)::int as n from journal_processes where kind = 'worker' and seen_at > now() - interval '5 seconds'",
    );
    return row?.n === 32;
  });
  const { code, stdout } = await run('restore', [backup, '--replace', '--redis', 'discard']);
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining('The backup has 16 shards, and the workers run with SHARDS=32. Restart'),
  ]);
});
