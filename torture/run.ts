import { setMaxListeners } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from './cluster/cluster.js';
import { Crowd } from './crowd/crowd.js';
import type { FinalState } from './final-state.js';
import { History, readHistory } from './history.js';
import type { CampaignFacts } from './judge/facts.js';
import { judge } from './judge/judge.js';
import type { Judgement } from './judge/violation.js';
import { Nemesis } from './nemesis.js';
import { observe } from './observe.js';
import { planFaults } from './plan.js';
import { Random } from './random.js';
import { reportOf } from './report.js';
import { awaitRecovery, comeToRest, openProbe, PATIENCE_MS, replaySome } from './settle.js';
import type { Tools } from './tools.js';

export type RunOptions = {
  seed: number;
  minutes: number;
  /** null = the usual mix */
  faults: string[] | null;
  replicas: number;
  shards: number;
  apis: number;
  perSecond: number;
  folder: string;
  /** Whether `npm run reconcile` exists, which makes Postgres whole after it was restored. */
  canReconcile: boolean;
};

export type RunResult = Judgement & { failures: string[]; report: string[] };

const REPORT_EVERY_MS = 10_000;
const PREPARE_LIMIT_MS = 60_000;
const OBSERVE_LIMIT_MS = 120_000;
const LAG_EVERY_MS = 100;
const LAG_NOTED_MS = 150;
const HISTORY = 'history.jsonl';
const FINAL = 'final.json';

/** Judges the history of an earlier run again, from the folder that it kept. */
export async function judgeAgain(folder: string): Promise<RunResult> {
  const history = await readHistory(join(folder, HISTORY));
  const { final, campaigns } = JSON.parse(readFileSync(join(folder, FINAL), 'utf8')) as Kept;
  const judgement = judge(history, final, campaigns);
  return { ...judgement, failures: [], report: reportOf(history, judgement) };
}

type Kept = { final: FinalState; campaigns: CampaignFacts[] };

/** One run: cluster, crowd and faults, then the judgement of the whole history. */
export async function runTorture(options: RunOptions, tools: Tools): Promise<RunResult> {
  const { seed, minutes, folder, replicas, shards, apis } = options;
  mkdirSync(folder, { recursive: true });
  const random = new Random(`torture-${seed}`);
  const plan = planFaults(random.fork('faults'), minutes * 60_000, options);
  writeFileSync(join(folder, 'plan.json'), `${JSON.stringify({ ...options, plan }, null, 2)}\n`);
  const history = new History(join(folder, HISTORY));
  const movesClocks = plan.some(({ lane }) => lane === 'clock');
  const cluster = await Cluster.start({ folder, replicas, shards, apis, movesClocks }, tools, history);
  const crowd = new Crowd(cluster, history, random.fork('crowd'), { ...options, buckets: shards });
  try {
    const nemesis = new Nemesis(cluster, history, random.fork('nemesis'), folder, tools.print);
    await openProbe(crowd.caller(PREPARE_LIMIT_MS));
    await awaitRecovery(cluster, crowd.caller(PREPARE_LIMIT_MS), history);
    await crowd.prepare();
    tools.print(`${plan.length} faults planned, ${crowd.campaigns.length} campaigns open`);
    const lag = watchLag(history);
    await underFaults(crowd, nemesis, history, plan, minutes, tools);
    tools.print('the faults are over; waiting until each API sells again');
    await awaitRecovery(cluster, crowd.caller(PATIENCE_MS), history);
    clearInterval(lag);
    await comeToRest(crowd);
    await replaySome(crowd.caller(PATIENCE_MS), [...history.calls]);
    const final = await observe(cluster, crowd.caller(OBSERVE_LIMIT_MS), history);
    const campaigns = crowd.facts();
    writeFileSync(join(folder, FINAL), `${JSON.stringify({ final, campaigns })}\n`);
    const judgement = judge(history, final, campaigns);
    return { ...judgement, failures: nemesis.failures, report: reportOf(history, judgement) };
  } finally {
    crowd.close();
    await cluster.stop();
    await history.close();
  }
}

async function underFaults(
  crowd: Crowd,
  nemesis: Nemesis,
  history: History,
  plan: Parameters<Nemesis['run']>[0],
  minutes: number,
  { print }: Tools,
): Promise<void> {
  const over = new AbortController();
  // Each lane listens.
  setMaxListeners(0, over.signal);
  const limit = setTimeout(() => over.abort(), minutes * 60_000);
  const report = setInterval(() => print(progressOf(crowd, history)), REPORT_EVERY_MS);
  crowd.start();
  try {
    const ended = new Promise((resolve) => over.signal.addEventListener('abort', resolve));
    await Promise.all([nemesis.run(plan, over.signal), ended]);
  } finally {
    clearTimeout(limit);
    clearInterval(report);
  }
}

/** Notes when a timer is late, for the judge of response times. */
function watchLag(history: History): NodeJS.Timeout {
  let lookedAt = performance.now();
  return setInterval(() => {
    const ms = performance.now() - lookedAt - LAG_EVERY_MS;
    lookedAt = performance.now();
    if (ms > LAG_NOTED_MS) history.event({ what: 'lag', ms: Math.round(ms) });
  }, LAG_EVERY_MS).unref();
}

function progressOf({ arrived, underWay }: Crowd, history: History): string {
  const seconds = (history.now() / 1_000).toFixed(1).padStart(6);
  return `${seconds} s  ${arrived} shoppers, ${underWay} under way, ${history.calls.length} calls`;
}
