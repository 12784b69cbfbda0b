// Starts a Redis Cluster for benchmarks: primaries that write to disk before they reply, without replicas.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedisCluster } from '../../scripts/engines/redis-cluster.mjs';

const NODE_TIMEOUT_MS = 15_000;

/** @typedef {{ pid: number, from: number, to: number }} ClusterNode a process, and its first and last slot */

/**
 * @param {number} primaries
 * @returns {Promise<{ url: string, nodes: readonly ClusterNode[], stop: () => Promise<void> }>}
 */
export async function startCluster(primaries) {
  const dataDir = mkdtempSync(join(tmpdir(), 'doorbuster-cluster-'));
  const cluster = await startRedisCluster({ dataDir, primaries, replicas: 0, nodeTimeoutMs: NODE_TIMEOUT_MS });
  return {
    url: cluster.url,
    nodes: cluster.nodes.map(({ engine, from, to }) => ({ pid: engine.pid, from, to })),
    stop: async () => {
      await cluster.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
