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
import { CodeLines } from './code-lines.js';
import type { GenerateBody } from './codes.contract.js';

export type Operator = { name: string; requestId: string };

export type CodesDeps = {
  database: Database;
  jobs: CodeJobs;
  /** Jobs over connections that may be busy for hours. */
  transferJobs: CodeJobs;
  codes: CodesTable;
  queues: JobQueues;
  limits: { codesPerCampaign: number; codeImportLines: number; codeLineBytes: number; codeJobErrors: number };
};

/** What operators do with codes: ask for new ones, send their own, look how far that is. A worker does the work. */
export class Codes {
  constructor(readonly deps: CodesDeps) {}

  /** @throws Problem 409 when the campaign takes no codes, or not so many */
  async generate(campaign: StoredCampaign, body: GenerateBody, operator: Operator): Promise<CodeJob> {
    const { database, jobs, codes } = this.deps;
    const room = await this.#roomIn(campaign);
    if (body.count > room) throw full(room);
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
   * Takes an upload of any length, a chunk at a time, at the speed of Postgres.
   * @throws Problem 400 empty or cut off, 409 when the campaign takes no codes or not so many, 413 too many lines
   */
  async import(campaign: StoredCampaign, body: Readable, operator: Operator): Promise<CodeJob> {
    const { transferJobs, limits } = this.deps;
    const room = await this.#roomIn(campaign);
    if (room <= 0) throw full(room);
    const id = uuidv7();
    const rows: string[] = [];
    const lines = new CodeLines({
      allowUsers: campaign.type === 'unique',
      maxLineBytes: limits.codeLineBytes,
      maxErrors: limits.codeJobErrors,
      // Neither a code nor a user id has a character that COPY's text form would escape.
      onCode: (line, code, userId) => rows.push(`${id}\t${line}\t${code}\t${userId ?? '\\N'}\n`),
    });
    const check = () => {
      if (lines.good > limits.codesPerCampaign) throw full(room);
      if (lines.line > limits.codeImportLines)
        throw new Problem('body_too_large', `A file may have ${limits.codeImportLines} lines.`);
    };
    const job = await transferJobs.upload(
      { id, campaignId: campaign.id },
      operator.name,
      copyRows(body, lines, rows, check),
      () => {
        if (lines.isEmpty) throw new Problem('invalid_request', 'The file has no line with a code.');
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
      throw new Problem('campaign_conflict', 'A shared campaign has one code; types unique and pool have many.');
    if (campaign.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
    return this.deps.limits.codesPerCampaign - (await this.deps.codes.lastNo(campaign.id));
  }

  /** Without Redis the job stands in Postgres, and a worker finds it there. */
  async #wake(job: CodeJob): Promise<void> {
    await this.deps.queues.add('codes', `${job.id}-0`, { jobId: job.id }).catch(() => {});
  }
}

/** The body as COPY's text, one piece for each chunk that came. */
async function* copyRows(body: Readable, lines: CodeLines, rows: string[], check: () => void): AsyncGenerator<string> {
  try {
    // Not destroyed when this ends early: the rest is thrown away, so that the refusal can be read.
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      lines.read(chunk as Buffer);
      check();
      if (rows.length > 0) yield rows.splice(0).join('');
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem('invalid_request', 'The body was cut off.');
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

const full = (room: number) => new Problem('codes_limit', `It has room for ${Math.max(0, room)} more.`);
