// Starts a Redis Cluster for benchmarks: primaries with equal ranges of slots, and no replicas.
import { Redis } from 'ioredis';
import { freePort } from '../../scripts/ports.mjs';
import { startEngine } from './engine.mjs';

const SLOTS = 16_384;
const HEALTHY_WITHIN_MS = 60_000;

/**
 * @typedef {{ pid: number, from: number, to: number }} ClusterNode a process, and its first and last slot
 * @typedef {{ url: string, nodes: readonly ClusterNode[], stop: () => Promise<void> }} Cluster
 */

/**
 * Starts a cluster of real server processes on the loopback, which write to disk before they reply.
 * @param {number} count of primaries
 * @returns {Promise<Cluster>}
 */
export async function startCluster(count) {
  /** @type {{ url: string, pid: number, busPort: number, stop: () => Promise<void> }[]} */
  const engines = [];
  const stop = async () => {
    await Promise.all(engines.map((engine) => engine.stop().catch(() => {})));
  };
  try {
    for (let i = 0; i < count; i += 1) {
      const busPort = await freePort();
      engines.push({ ...(await startEngine({ args: settings(busPort) })), busPort });
    }
    const nodes = engines.map(({ pid }, i) => ({
      pid,
      from: Math.floor((i * SLOTS) / count),
      to: Math.floor(((i + 1) * SLOTS) / count) - 1,
    }));
    await join(engines, nodes);
    return { url: `redis+cluster://${engines.map(({ url }) => new URL(url).host).join(',')}`, nodes, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @param {number} busPort */
function settings(busPort) {
  return ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-port', String(busPort)];
}

/**
 * Makes one cluster of servers, and waits until each of them serves.
 * @param {readonly { url: string, busPort: number }[]} engines
 * @param {readonly ClusterNode[]} nodes
 */
async function join(engines, nodes) {
  const clients = engines.map(({ url }) => new Redis(url));
  try {
    for (const { url, busPort } of engines) {
      await clients[0]?.call('CLUSTER', 'MEET', '127.0.0.1', new URL(url).port, String(busPort));
    }
    await Promise.all(
      nodes.map(({ from, to }, i) => clients[i]?.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to))),
    );
    const giveUpAt = performance.now() + HEALTHY_WITHIN_MS;
    for (;;) {
      const infos = await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')));
      const healthy = infos.every((info) => {
        const text = String(info);
        return text.includes('cluster_state:ok') && text.includes(`cluster_size:${nodes.length}\r`);
      });
      if (healthy) return;
      if (performance.now() > giveUpAt) throw new Error(`the cluster did not form: ${infos[0]}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  } finally {
    for (const client of clients) client.disconnect();
  }
}
