import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { type ReplicationLimits, ReplicationWatch } from '../../api/claim/replication-watch.js';
import { keys } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { startTestServer } from '../harness/engines.js';
import { EngineProxy } from '../harness/proxy.js';
import { startReplica } from '../harness/replicas.js';
import { connectToRedis } from '../harness/sale.js';
import { until } from '../harness/until.js';

const primary = await startTestServer();
const replica = await startReplica(primary.port);
const other = await startTestServer();
const commands = await connectToRedis(primary.url);
/** So long that nothing but the reason under test ends the wait. */
const UNLIMITED = { waitMs: 3_600_000 };
/** For calls that nothing but the limit ends. */
const SHORT = { waitMs: 500 };
const LIMITS = { ...UNLIMITED, roundMs: 100, maxWaiting: 10_000 };

const infoOf = async (redis: Redis, name: string) =>
  new RegExp(`^${name}:(\\S+)`, 'm').exec(await redis.info('everything'))?.[1] ?? '';
const replid = (redis: Redis) => infoOf(redis, 'master_replid');
const server = await replid(primary.client);

/** A watch on a connection through a proxy. */
async function startWatch(
  replicas = 1,
  limits: Partial<ReplicationLimits> = {},
  expected = () => server as string | null,
) {
  const proxy = await EngineProxy.before(primary.port);
  const connection = await connectToRedis(`redis://127.0.0.1:${proxy.port}`);
  return { proxy, connection, watch: new ReplicationWatch(connection, replicas, { ...LIMITS, ...limits }, expected) };
}

const marks = async () => Number((await primary.client.get(keys.mark)) ?? 0);

/** @returns the value and after how long it came, ms */
async function timed<Value>(promise: Promise<Value>): Promise<[Value, number]> {
  const began = performance.now();
  return [await promise, performance.now() - began];
}

atEnd('the replica', () => replica.kill('SIGCONT'));
beforeEach(async () => {
  replica.kill('SIGCONT');
  await until('the replica follows', async () => (await primary.client.wait(1, 100)) === 1);
  await primary.client.del(keys.mark);
});

describe('ReplicationWatch', () => {
  it('confirms what a replica has', async () => {
    const { watch } = await startWatch();
    for (let i = 0; i < 20; i += 1) {
      await commands.set('value', i);
      expect(await watch.replicated()).toBe(true);
      expect(await replica.client.get('value')).toBe(String(i));
    }
  });

  it('needs no call when it waits for no replica', async () => {
    const { watch } = await startWatch(0);
    expect(watch.replicated()).toBe(watch.replicated());
    expect(await watch.replicated()).toBe(true);
    expect(await marks()).toBe(0);
  });

  it('shares a round between calls of one turn, and makes no traffic when idle', async () => {
    const { watch, connection } = await startWatch();
    expect(new Set(await Promise.all(Array.from({ length: 1_000 }, () => watch.replicated())))).toEqual(
      new Set([true]),
    );
    expect(await marks()).toBe(1);
    const calls = await infoOf(primary.client, 'total_commands_processed');
    await sleep(600);
    // Only the two INFO of this test; replication itself is not counted.
    expect(Number(await infoOf(primary.client, 'total_commands_processed')) - Number(calls)).toBeLessThanOrEqual(3);
    expect([watch.waiting, connection.status]).toEqual([0, 'ready']);
  });

  it('returns false within the limit while the replica is stopped, and true when it goes on', async () => {
    const [{ watch }, { watch: patient }] = [await startWatch(1, SHORT), await startWatch()];
    replica.kill('SIGSTOP');
    await commands.set('value', 'lost?');
    const before = await marks();
    const late = patient.replicated();
    await until('it waits', async () => (await marks()) > before);
    const [replicated, ms] = await timed(watch.replicated());
    expect(replicated).toBe(false);
    expect(ms).toBeGreaterThan(450);
    replica.kill('SIGCONT');
    expect(await late).toBe(true);
    await until('the next call is confirmed', () => watch.replicated());
    expect([watch.waiting, patient.waiting]).toEqual([0, 0]);
  });

  it('waits for as many replicas as are configured', async () => {
    const { watch } = await startWatch(2, SHORT);
    expect(await watch.replicated()).toBe(false);
  });

  it('returns false when the connection is lost, and goes on with the next', async () => {
    const { watch, proxy, connection } = await startWatch();
    replica.kill('SIGSTOP');
    const lost = watch.replicated();
    await until('it waits', async () => (await marks()) > 0);
    await proxy.cut();
    expect(await lost).toBe(false);
    replica.kill('SIGCONT');
    // Called while there is no connection.
    await until('the connection is gone', () => connection.status !== 'ready');
    expect(await watch.replicated()).toBe(true);
  });

  it('does not take the replicas of another server for those of the server that replied', async () => {
    const { watch, proxy, connection } = await startWatch(1, SHORT);
    await startReplica(other.port);
    await proxy.switchTo(other.port, { keep: true });
    connection.disconnect(true);
    await until(
      'the connection is on the other server',
      async () => connection.status === 'ready' && (await replid(connection).catch(() => server)) !== server,
    );
    await commands.set('value', 'on the primary');
    expect(await watch.replicated()).toBe(false);
    // It looks for the primary by itself.
    await proxy.switchTo(primary.port, { keep: true });
    await until('it confirms again', () => watch.replicated());
    expect(await replid(connection)).toBe(server);
  });

  it('confirms nothing for a server that is not in service', async () => {
    let present: string | null = server;
    const { watch } = await startWatch(1, {}, () => present);
    expect(await watch.replicated('another')).toBe(false);
    replica.kill('SIGSTOP');
    const waits = watch.replicated();
    present = null;
    expect(await waits).toBe(false);
    expect(await watch.replicated()).toBe(false);
  });

  it('keeps no more calls waiting than it may', async () => {
    const { watch } = await startWatch(1, { maxWaiting: 3 });
    const all = await Promise.all([1, 2, 3, 4].map(() => watch.replicated()));
    expect(all).toEqual([true, true, true, false]);
    expect(await watch.replicated()).toBe(true);
  });

  it('reads what has arrived before it gives up, in a process that was busy', async () => {
    const waitMs = 3_000;
    const connection = await connectToRedis(primary.url);
    const watch = new ReplicationWatch(connection, 1, { ...LIMITS, waitMs, roundMs: 0 }, () => server);
    const before = await marks();
    replica.kill('SIGSTOP');
    const end = performance.now() + waitMs;
    const waits = watch.replicated();
    await until('the round has begun', async () => (await marks()) > before);
    replica.kill('SIGCONT');
    // From here on nothing is read, until the reply is there and the time is over.
    expect(waitForReply()).toBe(0);
    while (performance.now() <= end);
    expect(await waits).toBe(true);
  });
});

/** Blocks this process until the primary keeps no WAIT any more. @returns the exit code of the process that looks */
function waitForReply(): number | null {
  const program = `
    import { Redis } from 'ioredis';
    const redis = new Redis(${primary.port});
    while (!(await redis.info('clients')).includes('blocked_clients:0'));
    redis.disconnect();`;
  return spawnSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 60_000 }).status;
}
