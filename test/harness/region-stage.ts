import { execFile, execFileSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../shared/config/project-root.js';
import { Stage } from '../faults/stage.js';
import { Operator } from './clients.js';
import { generateCodes } from './issued-codes.js';
import { EngineProxy } from './proxy.js';
import { until } from './until.js';

export const REGION_SECRET = 'region-secret-of-the-tests';
/** One way; a round trip has twice this. */
const DELAY_MS = 20;

export type RegionStage = { name: string; stage: Stage; operator: Operator };
export type TwoRegions = { us: RegionStage; eu: RegionStage; toUs: EngineProxy; toEu: EngineProxy };

/** Two installations with engines of their own, each of which reaches the other through a proxy that delays. */
export async function startTwoRegions(extra: NodeJS.ProcessEnv = {}): Promise<TwoRegions> {
  const [us, eu] = await Promise.all([Stage.set(), Stage.set()]);
  const toUs = await EngineProxy.before(portOf(us), DELAY_MS);
  const toEu = await EngineProxy.before(portOf(eu), DELAY_MS);
  const [here, there] = await Promise.all([
    asRegion('us', us, [`us=${us.url}`, `eu=http://127.0.0.1:${toEu.port}`], extra),
    asRegion('eu', eu, [`us=http://127.0.0.1:${toUs.port}`, `eu=${eu.url}`], extra),
  ]);
  await untilLinked(here, 'eu');
  await untilLinked(there, 'us');
  return { us: here, eu: there, toUs, toEu };
}

/** Restarts the processes of an installation as a region, after it has joined. */
async function asRegion(name: string, stage: Stage, regions: string[], extra: NodeJS.ProcessEnv): Promise<RegionStage> {
  await Promise.all([...stage.apis, ...stage.workers].map((process) => process.stop()));
  stage.env = {
    ...stage.env,
    REGION: name,
    REGIONS: regions.join(','),
    REGION_KEYS: `shared:${REGION_SECRET}`,
    REGION_CODE_PREFIXES: 'US=us,EU=eu',
    ...extra,
  };
  await runRegions(stage.env, 'join');
  await Promise.all([stage.startWorker(), stage.startApi()]);
  return { name, stage, operator: new Operator(stage.url) };
}

/**
 * Starts an installation with a copy of the Postgres of a region that is lost, and nothing of its Redis. No process of
 * it runs.
 * @param copy folder of a Postgres that is stopped
 */
export async function restoreElsewhere({ stage }: RegionStage, copy: string): Promise<Stage> {
  const restored = await Stage.set();
  await Promise.all([restored.workers.at(-1)!.stop(), restored.apis.at(-1)!.stop()]);
  await Promise.all([restored.postgres.stop(), restored.redis.stop()]);
  await restored.removeRedisData();
  await rm(join(restored.folder, 'postgres'), { recursive: true });
  // With the owner of the files, which is not root.
  execFileSync('cp', ['-a', copy, join(restored.folder, 'postgres')]);
  await Promise.all([restored.startPostgres(), restored.startRedis()]);
  const { REDIS_URL, DATABASE_URL, PORT } = restored.env;
  restored.env = { ...stage.env, REDIS_URL, DATABASE_URL, PORT };
  return restored;
}

/** Runs `npm run regions` as an operator would. @returns what it printed */
export async function runRegions(env: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
  const main = join(projectRoot(), 'dist/commands/regions.js');
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...args], { env });
  return stdout;
}

/** The checks of /readyz; null = there is no response. */
export async function readinessOf(url: string): Promise<{ status: number; checks: Record<string, any> } | null> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(10_000) });
    const { data, checks } = (await response.json()) as Record<string, any>;
    return { status: response.status, checks: data?.checks ?? checks ?? {} };
  } catch {
    return null;
  }
}

/** Waits until a region can call another one, and is in service. */
export async function untilLinked({ stage }: RegionStage, other: string): Promise<void> {
  await until(`the region can call ${other}`, async () => {
    const found = await readinessOf(stage.url);
    return found?.status === 200 && found.checks[`region_${other}`]?.ok === true;
  });
}

/** A campaign of a region with codes that begin with its name. */
export async function openCodes(
  { operator, name, stage }: RegionStage,
  count: number,
  terms: Record<string, unknown> = {},
): Promise<{ product: string; codes: string[] }> {
  const product = await stage.openCampaign({ type: 'unique', total_limit: count, hold_seconds: 0, ...terms });
  const codes = await generateCodes(operator, product, count, name.toUpperCase());
  return { product, codes };
}

const portOf = ({ url }: Stage): number => Number(new URL(url).port);
