import { pipeline } from 'node:stream/promises';
import { from as copyFrom } from 'pg-copy-streams';
import type { Code } from '../domain/codes.js';
import type { Database, Queryable } from './pool.js';

export type CodeJobKind = 'generate' | 'import';
export const CODE_JOB_STATUSES = ['waiting', 'running', 'done', 'failed'] as const;
export type CodeJobStatus = (typeof CODE_JOB_STATUSES)[number];

/** A line of an upload that was rejected. */
export type LineError = { line: number; detail: string };

export type CodeJob = {
  id: string;
  campaignId: string;
  kind: CodeJobKind;
  status: CodeJobStatus;
  /** The form of generated codes. */
  prefix: string;
  symbols: number;
  /** Codes to generate, or lines of the upload that can be codes. */
  total: number;
  processed: number;
  added: number;
  duplicates: number;
  /** Lines that are not a code, and lines for which the campaign had no room. */
  badLines: number;
  /** The last line of the file that has been processed. */
  lastLine: number;
  /** The first rejected lines, by line number. */
  errors: LineError[];
  failure: string | null;
  createdAt: Date;
  updatedAt: Date;
  finishedAt: Date | null;
};

/** The state of a job after one chunk. */
export type CodeProgress = Pick<
  CodeJob,
  'status' | 'processed' | 'added' | 'duplicates' | 'badLines' | 'lastLine' | 'errors' | 'failure'
>;
export type StagedLine = { line: number; code: Code; userId: string | null };
/** The result of an upload, in addition to its staged lines. */
export type UploadSummary = { total: number; badLines: number; errors: LineError[] };

const SET_BACK =
  'Postgres was set back and has lost codes of the campaign, which may be of this file and used: issue new codes instead';

type Row = {
  job_id: string;
  campaign_id: string;
  kind: CodeJobKind;
  status: CodeJobStatus;
  prefix: string;
  symbols: number;
  total: number;
  processed: number;
  added: number;
  duplicates: number;
  bad_lines: string;
  last_line: number;
  errors: LineError[];
  failure: string | null;
  created_at: Date;
  updated_at: Date;
  finished_at: Date | null;
};

/**
 * Tables `code_jobs` and `code_staging`: the jobs with their progress, and the lines of uploads that have not been
 * imported yet.
 */
export class CodeJobs {
  constructor(readonly database: Database) {}

  async insert(
    job: Pick<CodeJob, 'id' | 'campaignId' | 'kind' | 'total'> & Partial<Pick<CodeJob, 'prefix' | 'symbols'>>,
    operator: string,
    client: Queryable,
  ): Promise<CodeJob> {
    const { rows } = await client.query<Row>(
      `insert into code_jobs (job_id, campaign_id, kind, total, prefix, symbols, created_by)
       values ($1, $2, $3, $4, $5, $6, $7) returning *`,
      [job.id, job.campaignId, job.kind, job.total, job.prefix ?? '', job.symbols ?? 0, operator],
    );
    return fromRow(rows[0] as Row);
  }

  /**
   * Writes an import job and all its lines in one transaction. An upload that is interrupted, on either side, leaves
   * nothing.
   * @param lines rows in the text format of COPY: job id, line, code, user id or \N
   * @param summarise called when all lines have been read
   * @param within further work in the same transaction
   */
  async upload(
    job: Pick<CodeJob, 'id' | 'campaignId'>,
    operator: string,
    lines: AsyncIterable<string>,
    summarise: () => UploadSummary,
    within: (job: CodeJob, client: Queryable) => Promise<void>,
  ): Promise<CodeJob> {
    return this.database.withClient(async (client) => {
      await this.insert({ ...job, kind: 'import', total: 0 }, operator, client);
      await pipeline(lines, client.query(copyFrom('copy code_staging (job_id, line, code, user_id) from stdin')));
      const { total, badLines, errors } = summarise();
      const { rows } = await client.query<Row>(
        `update code_jobs set total = $2, bad_lines = $3, errors = $4 where job_id = $1 returning *`,
        [job.id, total, badLines, JSON.stringify(errors)],
      );
      const uploaded = fromRow(rows[0] as Row);
      await within(uploaded, client);
      return uploaded;
    });
  }

  async find(campaignId: string, jobId: string): Promise<CodeJob | null> {
    const { rows } = await this.database.query<Row>(
      'select * from code_jobs where campaign_id = $1 and job_id = $2::uuid',
      [campaignId, jobId],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Locks an unfinished job for this transaction.
   * @returns null when the job is finished, does not exist, or is locked
   */
  async lock(jobId: string, client: Queryable): Promise<CodeJob | null> {
    const { rows } = await client.query<Row>(
      `select * from code_jobs where job_id = $1 and status in ('waiting', 'running') for update skip locked`,
      [jobId],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Unfinished jobs that have made no progress for `idleMs`, oldest first. */
  async left(idleMs: number, limit: number): Promise<Pick<CodeJob, 'id' | 'processed'>[]> {
    const { rows } = await this.database.query<{ job_id: string; processed: number }>(
      `select job_id, processed from code_jobs
       where status in ('waiting', 'running') and updated_at <= now() - make_interval(secs => $1::float8 / 1000)
       order by updated_at limit $2`,
      [idleMs, limit],
    );
    return rows.map(({ job_id, processed }) => ({ id: job_id, processed }));
  }

  async stagedLines(job: CodeJob, limit: number, client: Queryable): Promise<StagedLine[]> {
    const { rows } = await client.query<{ line: number; code: Code; user_id: string | null }>(
      'select line, code, user_id from code_staging where job_id = $1 and line > $2 order by line limit $3',
      [job.id, job.lastLine, limit],
    );
    return rows.map(({ line, code, user_id }) => ({ line, code, userId: user_id }));
  }

  /** Stores the progress of a job after a chunk, and deletes the lines that have been processed. */
  async advance(job: CodeJob, progress: CodeProgress, client: Queryable): Promise<void> {
    if (job.kind === 'import') {
      await client.query('delete from code_staging where job_id = $1 and line > $2 and line <= $3', [
        job.id,
        job.lastLine,
        progress.lastLine,
      ]);
    }
    await client.query(
      `update code_jobs set status = $2, processed = $3, added = $4, duplicates = $5, bad_lines = $6, last_line = $7,
         errors = $8, failure = $9, updated_at = now(), finished_at = case when $2 in ('done', 'failed') then now() end
       where job_id = $1`,
      [
        job.id,
        progress.status,
        progress.processed,
        progress.added,
        progress.duplicates,
        progress.badLines,
        progress.lastLine,
        JSON.stringify(progress.errors),
        progress.failure,
      ],
    );
  }
}

/**
 * Ends imports because Postgres has lost codes of their campaign. They may have been lines of these files, and which of
 * them were used is lost as well: under a new number a used code would be accepted again.
 * @param column of `code_jobs` that has one of the values
 */
export async function endImports(
  client: Queryable,
  column: 'job_id' | 'campaign_id',
  values: readonly string[],
): Promise<void> {
  await client.query(
    `with ended as (
       update code_jobs set status = 'failed', failure = $2, updated_at = now(), finished_at = now()
       where ${column} = any($1::uuid[]) and kind = 'import' and status in ('waiting', 'running') returning job_id)
     delete from code_staging where job_id in (select job_id from ended)`,
    [values, SET_BACK],
  );
}

function fromRow(row: Row): CodeJob {
  return {
    id: row.job_id,
    campaignId: row.campaign_id,
    kind: row.kind,
    status: row.status,
    prefix: row.prefix,
    symbols: row.symbols,
    total: row.total,
    processed: row.processed,
    added: row.added,
    duplicates: row.duplicates,
    badLines: Number(row.bad_lines),
    lastLine: row.last_line,
    errors: row.errors,
    failure: row.failure,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    finishedAt: row.finished_at,
  };
}
