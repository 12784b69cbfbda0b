import { type Code, drawCodes } from '../../shared/domain/codes.js';
import type { CampaignId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import {
  type CodeJob,
  type CodeJobs,
  type CodeProgress,
  endImports,
  type LineError,
} from '../../shared/postgres/code-jobs.js';
import type { CodesTable, NewCode } from '../../shared/postgres/codes.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { CodeNotifications } from '../../shared/redis/code-notifications.js';

export type IssueDeps = {
  database: Database;
  jobs: CodeJobs;
  codes: CodesTable;
  news: CodeNotifications;
  /** Returns the last code number that Redis knows of a campaign. A Postgres that was set back has a lower one. */
  lastNoInRedis: (campaignId: CampaignId) => Promise<number>;
  /** Adds the issued codes of a campaign to Redis, and queues the promotion of users who wait for a code. */
  issued: (campaignId: CampaignId) => Promise<void>;
  /** Adds the next run of a job. Adding the same run twice makes one job. */
  again: (jobId: string) => Promise<unknown>;
  /** The other region that a code belongs to; null = it belongs to this one, or there is no other. */
  otherRegionOf: (code: Code) => RegionName | null;
  metrics: Metrics;
  log: Log;
  limits: {
    perCampaign: number;
    chunk: number;
    runMs: number;
    jobErrors: number;
    leftIdleMs: number;
  };
};

const MAX_LEFT = 100;
const FULL = 'the campaign has as many codes as it can have';

/**
 * Continues a job, chunk by chunk, until the job is done or the run has used its time. A chunk and the job's progress
 * are written in one transaction. So a worker may die at any point: the next one continues after the last commit, and
 * no code is issued or counted twice.
 */
export async function issueCodes(jobId: string, deps: IssueDeps): Promise<void> {
  const until = performance.now() + deps.limits.runMs;
  for (;;) {
    const job = await issueChunk(jobId, deps);
    if (job === null) return;
    deps.metrics.codesIssued.inc({ kind: job.kind }, job.added);
    if (job.added > 0) await deps.issued(job.campaignId as CampaignId);
    if (job.status === 'done' || job.status === 'failed') {
      deps.log.info({ job: jobId, campaign: job.campaignId, status: job.status }, 'a code job ended');
      return;
    }
    if (performance.now() > until) {
      await deps.again(jobId);
      return;
    }
  }
}

/** Adds runs for jobs that no worker is processing: their worker or API process died, or Redis lost them. */
export async function resumeLeftJobs({ jobs, again, limits }: IssueDeps): Promise<void> {
  for (const job of await jobs.left(limits.leftIdleMs, MAX_LEFT)) await again(job.id);
}

/** What one chunk adds to its job. */
type Chunk = { fresh: NewCode[]; lines: number; duplicates: number; errors: LineError[]; lastLine: number };
type Advanced = Pick<CodeJob, 'campaignId' | 'kind' | 'status' | 'processed' | 'added'>;

/** @returns the job with `added` of this chunk; null when the job is done or another worker is processing it */
async function issueChunk(jobId: string, deps: IssueDeps): Promise<Advanced | null> {
  const { database, jobs, codes, news } = deps;
  return database.transaction(async (client) => {
    const job = await jobs.lock(jobId, client);
    if (job === null) return null;
    // Numbers of codes that Postgres has lost are not given again, because these codes may be used.
    const inRedis = await deps.lastNoInRedis(job.campaignId as CampaignId);
    const inPostgres = await codes.lockSeries(job.campaignId, client);
    if (job.kind === 'import' && inRedis > inPostgres) {
      await endImports(client, 'job_id', [job.id]);
      return { ...job, status: 'failed', added: 0 };
    }
    const lastNo = Math.max(inPostgres, inRedis);
    // Acquired last: another transaction that waits for this lock waits until this whole chunk is committed.
    await codes.lockIssuing(client);
    const room = deps.limits.perCampaign - lastNo;
    const chunk = await (job.kind === 'generate' ? drawChunk : importChunk)(job, lastNo, room, deps, client);
    const settled = chunk.fresh.length > 0 ? await news.announce(chunk.fresh.map(({ code }) => code)) : async () => {};
    await codes.insert(job.campaignId, chunk.fresh, client);
    const progress = progressOf(job, chunk, room, deps.limits);
    await jobs.advance(job, progress, client);
    await settled();
    return { ...job, ...progress, added: chunk.fresh.length };
  });
}

async function drawChunk(
  job: CodeJob,
  lastNo: number,
  room: number,
  { codes, otherRegionOf, limits }: IssueDeps,
  client: Queryable,
): Promise<Chunk> {
  const count = Math.max(0, Math.min(limits.chunk, job.total - job.processed, room));
  // Those of other regions are left out; the next chunk draws what is missing.
  const drawn = [...new Set(drawCodes(count, job))].filter((code) => otherRegionOf(code) === null);
  const known = await codes.find(drawn, client);
  const fresh = drawn.filter((code) => !known.has(code));
  return {
    fresh: fresh.map((code, i) => ({ code, codeNo: lastNo + 1 + i, userId: null })),
    lines: fresh.length,
    duplicates: 0,
    errors: [],
    lastLine: 0,
  };
}

async function importChunk(
  job: CodeJob,
  lastNo: number,
  room: number,
  { jobs, codes, otherRegionOf, limits }: IssueDeps,
  client: Queryable,
): Promise<Chunk> {
  const lines = await jobs.stagedLines(job, limits.chunk, client);
  const known = await codes.find(
    lines.map(({ code }) => code),
    client,
  );
  const chunk: Chunk = { fresh: [], lines: lines.length, duplicates: 0, errors: [], lastLine: job.lastLine };
  const seen = new Set<string>();
  for (const { line, code, userId } of lines) {
    chunk.lastLine = line;
    const issued = known.get(code);
    const other = otherRegionOf(code);
    if (other !== null) {
      chunk.errors.push({ line, detail: `the code belongs to region ${other}; import it there` });
    } else if (issued || seen.has(code)) {
      chunk.duplicates += 1;
      chunk.errors.push({ line, detail: duplicateOf(issued, job) });
    } else if (chunk.fresh.length >= room) {
      chunk.errors.push({ line, detail: FULL });
    } else {
      seen.add(code);
      chunk.fresh.push({ code, codeNo: lastNo + 1 + chunk.fresh.length, userId });
    }
  }
  return chunk;
}

function duplicateOf(issued: { campaignId: string; codeNo: number } | undefined, job: CodeJob): string {
  if (!issued || issued.campaignId === job.campaignId) return 'a duplicate: the file or the campaign has it already';
  return issued.codeNo === 0
    ? 'a duplicate: it is the code of a shared campaign'
    : 'a duplicate: another campaign has it';
}

function progressOf(job: CodeJob, chunk: Chunk, room: number, limits: { jobErrors: number }): CodeProgress {
  const processed = job.processed + chunk.lines;
  const full = job.kind === 'generate' && room <= 0 && processed < job.total;
  // The status becomes `done` in an extra, empty chunk, so that all codes are usable when a reader finds the job done.
  const isOver = processed >= job.total && chunk.lines === 0;
  return {
    status: full ? 'failed' : isOver ? 'done' : 'running',
    processed,
    added: job.added + chunk.fresh.length,
    duplicates: job.duplicates + chunk.duplicates,
    badLines: job.badLines + (chunk.errors.length - chunk.duplicates),
    lastLine: chunk.lastLine,
    errors: [...job.errors, ...chunk.errors].sort((a, b) => a.line - b.line).slice(0, limits.jobErrors),
    failure: full ? FULL : null,
  };
}
