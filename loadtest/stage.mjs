// The stage of a load test that needs engines of its own: a Redis Cluster, Postgres, a worker and an API as plain
// processes on this machine. Nothing of it is left after the run.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres } from '../scripts/engines/postgres.mjs';
import { startRedisCluster } from '../scripts/engines/redis-cluster.mjs';
import { startService, waitUntilReady } from '../scripts/parts.mjs';
import { freePort } from '../scripts/ports.mjs';
import { Problem } from '../scripts/problem.mjs';
import { run } from '../scripts/processes.mjs';
import { keepSecrets } from '../scripts/secrets.mjs';
import { until } from '../scripts/waiting.mjs';
import { secretOf } from '../scripts/welcome.mjs';
import { cpuMicros, cpuMicrosWithChildren } from './bench/measure.mjs';

const MIGRATION_LIMIT_MS = 60_000;
const SHARDS_LIMIT_MS = 60_000;
/** A replica takes over when the others have not reached its primary for so long. */
const NODE_TIMEOUT_MS = 2_000;

/**
 * CPU of each part since its start, µs.
 * @typedef {Record<'api' | 'worker' | 'postgres' | 'replicas', number> & { nodes: number[] }} StageCpu
 *
 * @typedef {object} Stage
 * @property {import('./target.mjs').Target} target
 * @property {import('../scripts/engines/engine.js').RunningCluster} cluster
 * @property {Buffer} attestationKey signs device tokens, as `ATTESTATION_KEYS` has it
 * @property {() => StageCpu} cpu
 * @property {() => Promise<void>} stop
 */

/**
 * @param {import('./scenario.js').StagePlan} plan
 * @param {string} root the repository, with a build
 * @param {(text: string) => void} say
 * @returns {Promise<Stage>}
 */
export async function startStage({ primaries, replicas, shards }, root, say) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-stage-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  // After Ctrl-C, main.mjs ends the processes and this program.
  process.once('exit', remove);
  /** @type {(() => Promise<unknown>)[]} */
  const ends = [];
  const stop = async () => {
    for (const end of ends.reverse()) await end();
    process.off('exit', remove);
    remove();
  };
  try {
    say(
      `starting a Redis Cluster of ${primaries} primaries with ${replicas} replica each, Postgres, a worker and an API`,
    );
    const cluster = await startRedisCluster({
      ...{ dataDir: join(folder, 'redis'), primaries, replicas, nodeTimeoutMs: NODE_TIMEOUT_MS, say },
    });
    ends.push(cluster.stop);
    const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), say });
    ends.push(() => postgres.stop());
    const { REDIS_PASSWORD: _, POSTGRES_PASSWORD: __, ...keys } = keepSecrets(folder);
    const engines = { REDIS_URL: cluster.url, DATABASE_URL: postgres.url, SHARDS: String(shards) };
    const port = await freePort();
    const env = {
      ...{ PATH: process.env.PATH, NODE_ENV: 'loadtest', HOST: '127.0.0.1', PORT: String(port), LOG_LEVEL: 'warn' },
      ...keys,
      ...engines,
    };
    await migrate(root, env);
    const start = async (/** @type {'api' | 'worker'} */ title) => {
      const options = { title, root, entry: `dist/${title}/main.js`, env, logPath: join(folder, `${title}.log`) };
      const service = await startService(options);
      ends.push(() => service.stop());
      return service;
    };
    const [worker, api] = [await start('worker'), await start('api')];
    const url = `http://127.0.0.1:${port}`;
    await waitUntilReady(url, [worker, api], () => {});
    await untilAllShardsServe(url);
    const { nodes } = cluster;
    const cpuOf = (/** @type {boolean} */ replica) =>
      nodes.filter((node) => node.replica === replica).map(({ engine }) => cpuMicrosWithChildren(engine.pid));
    return {
      target: {
        ...{ url, adminKey: secretOf(keys.ADMIN_API_KEYS), serviceKey: secretOf(keys.SERVICE_API_KEYS), engines },
      },
      cluster,
      attestationKey: Buffer.from(secretOf(keys.ATTESTATION_KEYS), 'base64'),
      cpu: () => ({
        ...{ api: cpuMicros(api.pid), worker: cpuMicros(worker.pid), postgres: cpuMicrosWithChildren(postgres.pid) },
        ...{ nodes: cpuOf(false), replicas: cpuOf(true).reduce((sum, micros) => sum + micros, 0) },
      }),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** An API is ready as soon as one shard is in service. @param {string} url */
async function untilAllShardsServe(url) {
  const all = async () => {
    const answer = await fetch(`${url}/readyz`);
    if (!answer.ok) return false;
    const { data } = /** @type {{ data: { checks: Record<string, { ok: boolean }> } }} */ (await answer.json());
    return Object.values(data.checks).every(({ ok }) => ok);
  };
  if (await until(all, { limitMs: SHARDS_LIMIT_MS })) return;
  throw new Problem('Not all shards of Redis came into service.', { exitCode: 2 });
}

/** @param {string} root @param {NodeJS.ProcessEnv} env */
async function migrate(root, env) {
  const { code, output } = await run(process.execPath, [join(root, 'dist/migrations/main.js')], {
    env,
    limitMs: MIGRATION_LIMIT_MS,
  });
  if (code !== 0) throw new Problem('The tables could not be created.', { details: output.trim(), exitCode: 2 });
}
