import type { Readable } from 'node:stream';
import { uuidv7 } from 'uuidv7';
import { symbolsFor } from '../../shared/domain/codes.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { CodeJob, CodeJobs } from '../../shared/postgres/code-jobs.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import { invalidFields } from '../http/validate.js';
import { CodeLines } from './code-lines.js';
import type { GenerateBody } from './codes.contract.js';

export type Operator = { name: string; requestId: string };

export type CodesDeps = {
  database: Database;
  jobs: CodeJobs;
  /** Jobs, on connections that may be busy for hours. */
  transferJobs: CodeJobs;
  codes: CodesTable;
  queues: JobQueues;
  /** Whether codes with a prefix can belong to this region. */
  canIssue: (prefix: string) => boolean;
  limits: { perCampaign: number; importLines: number; lineBytes: number; jobErrors: number };
};

/** Code jobs of operators: generation, import and progress. A worker runs the jobs. */
export class Codes {
  constructor(readonly deps: CodesDeps) {}

  /** Creates a generation job. @throws Problem 409 if the campaign cannot have codes, or not this many */
  async generate(campaign: StoredCampaign, body: GenerateBody, operator: Operator): Promise<CodeJob> {
    const { database, jobs, codes } = this.deps;
    const room = await this.#roomIn(campaign);
    if (body.count > room) throw full(room);
    if (!this.deps.canIssue(body.prefix ?? ''))
      throw invalidFields({ pointer: '#/prefix', detail: 'codes with this prefix belong to another region' });
    const job = await database.transaction(async (client) => {
      const { numbered, shared } = await codes.count(client);
      const symbols = symbolsFor(numbered + shared + body.count);
      const form = { prefix: body.prefix ?? '', symbols, total: body.count };
      const made = await jobs.insert(
        { id: uuidv7(), campaignId: campaign.id, kind: 'generate', ...form },
        operator.name,
        client,
      );
      await audit(client, campaign, made, operator);
      return made;
    });
    await this.#wake(job);
    return job;
  }

  /**
   * Creates an import job from an upload of any length. It is read chunk by chunk, as fast as Postgres can store it.
   * @throws Problem 400 empty or truncated, 409 if the campaign cannot have codes or not this many, 413 too many lines
   */
  async import(campaign: StoredCampaign, body: Readable, operator: Operator): Promise<CodeJob> {
    const { transferJobs, limits } = this.deps;
    const room = await this.#roomIn(campaign);
    if (room <= 0) throw full(room);
    const id = uuidv7();
    const rows: string[] = [];
    const lines = new CodeLines({
      allowUsers: campaign.type === 'unique',
      maxLineBytes: limits.lineBytes,
      maxErrors: limits.jobErrors,
      // Codes and user ids never contain characters that COPY's text format escapes.
      onCode: (line, code, userId) => rows.push(`${id}\t${line}\t${code}\t${userId ?? '\\N'}\n`),
    });
    const check = () => {
      if (lines.good > limits.perCampaign) throw full(room);
      if (lines.line > limits.importLines)
        throw new Problem('body_too_large', `A file can have at most ${limits.importLines} lines.`);
    };
    const job = await transferJobs.upload(
      { id, campaignId: campaign.id },
      operator.name,
      copyRows(body, lines, rows, check),
      () => {
        if (lines.isEmpty) throw new Problem('invalid_request', 'The file contains no line with a code.');
        return lines.summary();
      },
      (uploaded, client) => audit(client, campaign, uploaded, operator),
    );
    await this.#wake(job);
    return job;
  }

  /** @throws Problem 404 */
  async job(campaign: StoredCampaign, jobId: string): Promise<CodeJob> {
    const job = await this.deps.jobs.find(campaign.id, jobId);
    if (!job) throw new Problem('code_job_not_found', 'The campaign has no job with this id.');
    return job;
  }

  async #roomIn(campaign: StoredCampaign): Promise<number> {
    if (campaign.type === 'shared')
      throw new Problem(
        'campaign_conflict',
        'A shared campaign has only one code. The types `unique` and `pool` have many.',
      );
    if (campaign.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
    return this.deps.limits.perCampaign - (await this.deps.codes.lastNo(campaign.id));
  }

  /** Queues the job. During an outage of Redis, a worker finds it in Postgres. */
  async #wake(job: CodeJob): Promise<void> {
    await this.deps.queues.add('codes', { jobId: job.id }).catch(() => {});
  }
}

/** Yields the body in COPY's text format, one piece per chunk. */
async function* copyRows(body: Readable, lines: CodeLines, rows: string[], check: () => void): AsyncGenerator<string> {
  try {
    // The stream is not destroyed: the caller discards the rest, so that the client can read the refusal.
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      lines.read(chunk as Buffer);
      check();
      if (rows.length > 0) yield rows.splice(0).join('');
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem('invalid_request', 'The body ended early.');
  }
  lines.end();
  if (rows.length > 0) yield rows.splice(0).join('');
}

function audit(client: Queryable, campaign: StoredCampaign, job: CodeJob, operator: Operator): Promise<void> {
  return writeAudit(client, {
    actor: operator.name,
    action: `codes.${job.kind}`,
    campaignId: campaign.id,
    before: null,
    after: { job: job.id, total: job.total, prefix: job.prefix, bad_lines: job.badLines },
    requestId: operator.requestId,
  });
}

const full = (room: number) => new Problem('codes_limit', `The campaign has room for ${Math.max(0, room)} more codes.`);
