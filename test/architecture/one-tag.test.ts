import { describe, expect, it } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import { shardPrefix } from '../../shared/domain/shards.js';
import { RedisConnections } from '../../shared/redis/connections.js';
import { bullmqPrefix, keys } from '../../shared/redis/keys.js';
import { parseRedisUrl, type RedisTarget } from '../../shared/redis/redis-target.js';
import { sourcesIn, withoutComments } from './sources.js';

/**
 * What one connection sends has one hash tag, so that no script, pipeline or transaction touches two slots: each
 * connection adds the prefix of its shard to all keys, except those of BullMQ, which gets it for its own names. A run
 * of the suite on clusters holds the rest, because a server refuses the keys of two slots.
 */
const PREFIX = shardPrefix(3, 8, true, 'shop');
const { target } = parseRedisUrl('redis+cluster://127.0.0.1:1?namespace=shop') as { target: RedisTarget };

describe('the connections of a shard', () => {
  const connections = new RedisConnections(
    target,
    { commandMs: 10, connectMs: 10 },
    () => {},
    () => {},
    PREFIX,
  );
  const { forCommands, forSubscription, forBlockingReads, forJobs, forQueues } = RedisConnections.prototype;
  const prefixOf = (connect: typeof forCommands) => {
    const redis = connect.call(connections);
    redis.disconnect();
    return redis.options.keyPrefix ?? '';
  };

  it('add its prefix to each key', () => {
    expect([forCommands, forSubscription, forBlockingReads].map(prefixOf)).toEqual([PREFIX, PREFIX, PREFIX]);
    connections.close();
  });

  it('add none where BullMQ does so, whose keys have the same tag', () => {
    expect([forJobs, forQueues].map(prefixOf)).toEqual(['', '']);
    expect(slotOf(`${bullmqPrefix(PREFIX)}:expire:wait`)).toBe(slotOf(PREFIX));
    connections.close();
  });

  it('are all that there is: no other kind of connection exists', () => {
    const kinds = Object.getOwnPropertyNames(RedisConnections.prototype).filter((name) => name.startsWith('for'));
    expect(kinds.sort()).toEqual(['forBlockingReads', 'forCommands', 'forJobs', 'forQueues', 'forSubscription']);
  });

  it('send keys of one slot, whatever tag a name has of its own', () => {
    const names = Object.values(keys).map((key) =>
      typeof key === 'string' ? key : (key as (...parts: unknown[]) => string)('{a}', 'b'),
    );
    expect(new Set(names.map((name) => slotOf(`${PREFIX}${name}`)))).toEqual(new Set([slotOf(PREFIX)]));
    expect(new Set(names.map((name) => slotOf(name))).size).toBeGreaterThan(10);
  });
});

describe('connections without a prefix', () => {
  it('are made for BullMQ only', () => {
    const product = sourcesIn(['api', 'worker', 'commands', 'shared']);
    const makers = product.filter(({ text }) => /\.(?:forJobs|forQueues)\(/.test(withoutComments(text)));
    expect(makers.map(({ path }) => path)).toEqual(['api/core.ts', 'shared/redis/connections.ts', 'worker/core.ts']);
  });
});

/** Commands that read the names of all keys of a server, also those of other shards. */
const READS_ALL_NAMES: readonly RegExp[] = [
  /(?<!\bObject)\.keys\(\s*[^\s)]/,
  /\.scan(?:Buffer|Stream|BufferStream)?\(/,
  /\bp?call(?:Buffer)?\(\s*['"`](?:scan|keys|randomkey)\b/i,
];
const readsAllNames = (text: string) => READS_ALL_NAMES.some((pattern) => pattern.test(withoutComments(text)));

describe('SCAN and KEYS', () => {
  it('are used nowhere', () => {
    const sources = [
      ...sourcesIn(['api', 'worker', 'commands', 'shared', 'scripts']),
      ...sourcesIn(['api', 'worker', 'commands', 'shared', 'scripts'], '.mjs'),
      ...sourcesIn(['lua'], '.lua'),
    ];
    expect(sources.filter(({ text }) => readsAllNames(text)).map(({ path }) => path)).toEqual([]);
  });

  it.each([
    "redis.keys('db1:*')",
    'redis.keys(pattern)',
    "this.redis.scan(cursor, 'MATCH', 'a*')",
    'redis.scanStream({ match })',
    "redis.call('SCAN', 0)",
    "redis.call('keys', '*')",
  ])('are found as %s', (code) => expect(readsAllNames(code)).toBe(true));

  it.each([
    'Object.keys(terms)',
    'map.keys()',
    'redis.hscan(key, cursor)',
    'scan(copy, rows)',
    "redis.call('HKEYS', key)",
  ])('are not %s', (code) => expect(readsAllNames(code)).toBe(false));
});
