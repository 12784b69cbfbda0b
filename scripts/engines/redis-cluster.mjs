// Starts a private Redis Cluster on the loopback: primaries with equal ranges of slots, each with its replicas. Used by
// load tests and benchmarks; the tests place and end the servers of theirs themselves (test/harness/cluster.ts).
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../ports.mjs';
import { Problem } from '../problem.mjs';
import { until } from '../waiting.mjs';
import { findRedisServer, startRedis } from './redis.mjs';

const SLOTS = 16_384;
const HEALTHY_LIMIT_MS = 60_000;
const CONNECT_LIMIT_MS = 2_000;
/** The file in which a server keeps what it knows of its cluster. */
export const CLUSTER_FILE = 'nodes.conf';

/** @typedef {import('./engine.js').ClusterPlace} ClusterPlace */
/** @typedef {import('./engine.js').RunningCluster} RunningCluster */

/**
 * Starts a cluster and returns when every slot is served and every replica follows its primary.
 * @param {import('./engine.js').ClusterOptions} options
 * @returns {Promise<RunningCluster>}
 */
export async function startRedisCluster({ dataDir, primaries, replicas, nodeTimeoutMs, extraArgs = [], say }) {
  const binary = await findRedisServer(say === undefined ? {} : { say });
  /** @type {ClusterPlace[]} */
  const places = [];
  for (let i = 0; i < primaries * (1 + replicas); i += 1) {
    const folder = join(dataDir, `server-${i + 1}`);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const [port, busPort] = [await freePort(), await freePort()];
    places.push({ id: randomBytes(20).toString('hex'), folder, host: '127.0.0.1', port, busPort });
  }
  for (const place of places) writePlaces(place, places, primaries);
  const start = (/** @type {ClusterPlace} */ { folder, port, busPort }) =>
    startRedis({ binary, dataDir: folder, port, extraArgs: clusterSettings(busPort, nodeTimeoutMs, extraArgs) });
  /** @type {RunningCluster['nodes'][number][]} */
  const nodes = [];
  const stop = async () => {
    await Promise.all(nodes.map(({ engine }) => engine.stop()));
  };
  try {
    for (const [i, place] of places.entries()) {
      const node = { engine: await start(place), ...slotsOf(i % primaries, primaries), replica: i >= primaries };
      const startAgain = async () => {
        node.engine = await start(place);
      };
      nodes.push(Object.assign(node, { startAgain }));
    }
    await untilHealthy(nodes, primaries, replicas);
    const hosts = nodes.slice(0, primaries).map(({ engine }) => `127.0.0.1:${engine.port}`);
    return { url: `redis+cluster://${hosts.join(',')}`, nodes, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * The settings of one server of a cluster.
 * @param {number} busPort
 * @param {number} nodeTimeoutMs a replica takes over when the others have not reached its primary for so long
 * @param {readonly string[]} extraArgs
 */
export function clusterSettings(busPort, nodeTimeoutMs, extraArgs) {
  return [
    ...['--cluster-enabled', 'yes', '--cluster-config-file', CLUSTER_FILE],
    ...['--cluster-port', String(busPort), '--cluster-node-timeout', String(nodeTimeoutMs)],
    ...['--cluster-require-full-coverage', 'no', '--repl-diskless-sync-delay', '0'],
    ...extraArgs,
  ];
}

/**
 * Writes the file of a server before its first start. Servers that start with it need not get to know each other first,
 * which takes seconds.
 * @param {ClusterPlace} own
 * @param {readonly ClusterPlace[]} all primaries first, then a replica of each in the same order, and so on
 * @param {number} primaries
 */
export function writePlaces(own, all, primaries) {
  const lines = all.map((place, i) => {
    const address = `${place.host}:${place.port}@${place.busPort}`;
    const mine = place === own ? 'myself,' : '';
    const { from, to } = slotsOf(i % primaries, primaries);
    const isPrimary = i < primaries;
    const role = isPrimary ? 'master -' : `slave ${/** @type {ClusterPlace} */ (all[i % primaries]).id}`;
    return `${place.id} ${address} ${mine}${role} 0 0 ${(i % primaries) + 1} connected${isPrimary ? ` ${from}-${to}` : ''}`;
  });
  const text = [...lines, `vars currentEpoch ${primaries} lastVoteEpoch 0`, ''].join('\n');
  writeFileSync(join(own.folder, CLUSTER_FILE), text);
}

/** @param {number} primary @param {number} primaries */
function slotsOf(primary, primaries) {
  const first = (/** @type {number} */ n) => Math.floor((n * SLOTS) / primaries);
  return { from: first(primary), to: first(primary + 1) - 1 };
}

/** @param {RunningCluster['nodes']} nodes @param {number} primaries @param {number} replicas */
async function untilHealthy(nodes, primaries, replicas) {
  const clients = nodes.map(({ engine }) => new Redis(engine.url, { connectTimeout: CONNECT_LIMIT_MS }));
  try {
    const size = `cluster_size:${primaries}\r`;
    const healthy = await until(
      async () => {
        const infos = await Promise.all(clients.map(async (client) => String(await client.call('CLUSTER', 'INFO'))));
        if (!infos.every((info) => info.includes('cluster_state:ok') && info.includes(size))) return false;
        const roles = await Promise.all(clients.slice(0, primaries).map((client) => client.info('replication')));
        return roles.every((text) => [...text.matchAll(/^slave\d+:.*state=online,/gm)].length === replicas);
      },
      { limitMs: HEALTHY_LIMIT_MS },
    );
    if (!healthy) throw new Problem('The Redis Cluster did not form.', { remedy: 'See the logs of its servers.' });
  } finally {
    for (const client of clients) client.disconnect();
  }
}
