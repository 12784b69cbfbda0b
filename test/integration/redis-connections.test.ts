import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { QUEUE_NAMES } from '../../shared/contracts/jobs.js';
import { startJobWorker } from '../../shared/queues/job-worker.js';
import { JobQueues } from '../../shared/queues/queues.js';
import { RedisConnections } from '../../shared/redis/connections.js';
import { parseRedisUrl } from '../../shared/redis/redis-target.js';
import { atEnd } from '../harness/cleanup.js';
import { startTestServer } from '../harness/engines.js';
import { EngineProxy } from '../harness/proxy.js';
import { until } from '../harness/until.js';

const [first, second] = [await startTestServer(), await startTestServer()];

/** The connections of a process to an address behind which the primary changes, as with a managed service. */
async function connectThroughProxy() {
  const proxy = await EngineProxy.before(first.port);
  const parsed = parseRedisUrl(`redis://127.0.0.1:${proxy.port}`);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const left: string[] = [];
  const connections = new RedisConnections(
    parsed.target,
    { commandMs: 1_500, connectMs: 1_500 },
    () => {},
    (reason) => left.push(reason),
  );
  atEnd('the connections', () => connections.close());
  return { proxy, connections, left };
}

const readyOn = (redis: Redis) => until('it is connected', () => redis.status === 'ready');
const portOf = async (redis: Redis) => Number(((await redis.config('GET', 'port')) as string[])[1]);
/** Clients of that server that were made by RedisConnections. */
async function clientsOf(redis: Redis): Promise<string[]> {
  const list = String(await redis.client('LIST'));
  return [...list.matchAll(/ name=(doorbuster:\S*|\S*bull\S*|\S*queues\S*) /g)].map(([, name]) => String(name));
}

/** The first server becomes a replica of the second, without closing any connection that is not blocked. */
async function demote(): Promise<void> {
  await first.client.replicaof('127.0.0.1', String(second.port));
}
async function undoDemotion(): Promise<void> {
  await first.client.replicaof('NO', 'ONE');
}

describe('RedisConnections', () => {
  it('moves every connection, BullMQ’s copies included, when one learns of the demotion', async () => {
    const { proxy, connections, left } = await connectThroughProxy();
    const [commands, jobs, blocking, subscription] = [
      connections.forCommands(),
      connections.forJobs(),
      connections.forJobs(),
      connections.forSubscription(),
    ];
    const heard: string[] = [];
    subscription.on('message', (_channel, message) => heard.push(message));
    await subscription.subscribe('news');
    const server = { connection: jobs, shardPrefix: '' };
    const queues = new JobQueues([server], () => {}, { queueJobs: 100, checkJobEveryMs: 4_000 });
    const ran: string[] = [];
    const workers = QUEUE_NAMES.map((queue) =>
      startJobWorker(
        queue,
        async () => {
          ran.push(queue);
          return undefined as never;
        },
        server,
        { shard: 0, concurrency: 1, processName: 'test' },
        { failed() {}, error() {}, full() {} },
      ),
    );
    await queues.add('promote', { productId: 'p' });
    await until('the first job ran', () => ran.includes('promote'));
    await until('all are connected', async () => (await clientsOf(first.client)).length >= 4 + QUEUE_NAMES.length);
    // Ends with UNBLOCKED, or is sent again to the new primary when another connection learns of the demotion first.
    const blocked = blocking.xread('BLOCK', 60_000, 'STREAMS', 'stream', '0-0').catch((error: Error) => error.message);

    await proxy.switchTo(second.port, { keep: true });
    await demote();
    await until('no client is connected to the old primary', async () => (await clientsOf(first.client)).length === 0);
    await Promise.all([commands, jobs, blocking, subscription].map(readyOn));
    expect(left[0]).toMatch(/UNBLOCKED|READONLY/);
    await second.client.xadd('stream', '*', 'a', '1');
    expect(JSON.stringify(await blocked)).toMatch(/UNBLOCKED|stream/);
    // Another connection may learn of the demotion later, and then all of them move once more.
    for (const redis of [commands, jobs, blocking])
      await until('it is at the new primary', async () => (await portOf(redis).catch(() => null)) === second.port);
    await until('messages arrive', async () => {
      await second.client.publish('news', 'hello');
      return heard.includes('hello');
    });
    ran.length = 0;
    await queues.add('promote', { productId: 'p' });
    await until('the next job ran', () => ran.includes('promote'));
    await Promise.all(workers.map((worker) => worker.close()));
    await queues.close();
    connections.close();
    await undoDemotion();
  });

  it('closes a connection once for a thousand replies of a demoted server', async () => {
    const { proxy, connections, left } = await connectThroughProxy();
    const commands = connections.forCommands();
    await readyOn(commands);
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    let closed = 0;
    commands.on('close', () => {
      closed += 1;
    });
    await proxy.switchTo(second.port, { keep: true });
    await demote();
    const replies = await Promise.allSettled(Array.from({ length: 1_000 }, (_, i) => commands.set(`k${i}`, '1')));
    expect(replies.every(({ status }) => status === 'rejected')).toBe(true);
    await until('it is connected again', () => closed > 0 && commands.status === 'ready');
    await sleep(400);
    expect(closed).toBe(1);
    expect(left.length).toBe(1);
    expect(await portOf(commands)).toBe(second.port);
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    await undoDemotion();
  });

  it('leaves at most once in 250 ms, and the second time only what was not made anew', async () => {
    const { connections, left } = await connectThroughProxy();
    const redis = connections.forCommands();
    await readyOn(redis);
    let closed = 0;
    redis.on('close', () => {
      closed += 1;
    });
    connections.leaveServer('once');
    connections.leaveServer('twice');
    connections.leaveServer('three times');
    expect(left).toEqual(['once']);
    await until('it left again', () => left.length === 2);
    await readyOn(redis);
    await sleep(300);
    expect([left.length, closed]).toEqual([2, 1]);
  });

  it('survives a call to leave at every moment of connecting', async () => {
    const { connections } = await connectThroughProxy();
    const all = [connections.forCommands(), connections.forJobs(), connections.forSubscription()];
    for (let i = 0; i < 60; i += 1) {
      connections.leaveServer(`time ${i}`);
      await sleep(17);
    }
    // The last call may end a connection that was ready.
    for (const redis of all) await until('it answers', async () => (await redis.ping().catch(() => null)) === 'PONG');
  });

  it('connects a subscription again that no longer answers', async () => {
    const { proxy, connections } = await connectThroughProxy();
    const subscription = connections.forSubscription();
    const heard: string[] = [];
    subscription.on('message', (_channel, message) => heard.push(message));
    await subscription.subscribe('news');
    await proxy.swallow();
    const closed = new Promise((resolve) => subscription.once('close', resolve));
    await closed;
    await proxy.heal();
    await until('messages arrive', async () => {
      await first.client.publish('news', 'hello');
      return heard.includes('hello');
    });
  });

  it('logs in as the user in the URL, and says no secret when it may not', async () => {
    const password = 'p%40ss:w/rd';
    await second.client.acl('SETUSER', 'shop', 'on', `>${password}`, '~*', '&*', '+@all');
    const connect = async (secret: string) => {
      const parsed = parseRedisUrl(`redis://shop:${encodeURIComponent(secret)}@127.0.0.1:${second.port}`);
      if ('problem' in parsed) throw new Error(parsed.problem);
      const errors: string[] = [];
      const connections = new RedisConnections(parsed.target, { commandMs: 1_500, connectMs: 1_500 }, (_, error) =>
        errors.push(error.message),
      );
      atEnd('the connections', () => connections.close());
      return { redis: connections.forCommands(), errors };
    };
    const right = await connect(password);
    await readyOn(right.redis);
    expect(await right.redis.acl('WHOAMI')).toBe('shop');
    const wrong = await connect('another-secret');
    await until('it is refused', () => wrong.errors.length > 0);
    expect(wrong.errors.join()).toContain('WRONGPASS');
    expect(wrong.errors.join()).not.toContain('another-secret');
  });
});
