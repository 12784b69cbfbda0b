import type { Request, Response } from 'express';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import { writeExport } from '../../shared/postgres/audit-log.js';
import type { CodeJob } from '../../shared/postgres/code-jobs.js';
import type { CodesTable } from '../../shared/postgres/codes.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import { readJson } from '../http/json-body.js';
import { allowLongRequest } from '../http/long-requests.js';
import type { Route } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { codeJobData, generateBody, generateBodySent } from './codes.contract.js';
import type { Codes } from './codes.js';
import { AS_OF, type LargeReads } from './large-reads.js';

const params = z.object({ id: campaignId });
const jobParams = params.extend({ job: z.uuid() });
const CSV_TYPE = /^text\/csv\s*(?:;|$)/i;
const OTHER_CHARSET = /;\s*charset\s*=\s*"?(?!utf-?8"?\s*(?:;|$)|us-ascii"?\s*(?:;|$))/i;
const READ_ERRORS = [
  'unauthorized',
  'forbidden',
  'invalid_request',
  'campaign_not_found',
  'temporarily_unavailable',
] as const;

export type CodeRouteDeps = {
  database: Database;
  campaigns: Campaigns;
  codes: Codes;
  /** Uses connections that may be busy for hours. */
  transferCodes: LargeReads<CodesTable>;
  apiKeys: ApiKeys;
  log: Log;
  limits: { transferIdleMs: number };
};

/** /admin/campaigns/:id/codes: generate, import and export codes, and read the progress of a job. */
export function codeRoutes({
  campaigns,
  database,
  codes,
  transferCodes,
  apiKeys,
  log,
  limits,
}: CodeRouteDeps): Route[] {
  return [
    defineRoute(
      {
        operationId: 'addCodes',
        method: 'post',
        path: '/admin/campaigns/:id/codes',
        summary: 'Generate codes, or import them from a CSV file',
        description:
          'A JSON body generates codes. `text/csv` imports lines `code[,user_id]` in UTF-8, with or without a header line; the file ' +
          'may have any length. Invalid lines and already issued codes are skipped and reported by their line number.',
        tag: 'admin',
        caller: 'admin',
        params,
        body: generateBodySent,
        otherBodies: { 'text/csv': z.string().describe('code[,user_id]') },
        answers: {
          202: {
            description: 'A worker runs the job; `Location` is the URL of its progress.',
            data: codeJobData,
            headers: ['Location'],
          },
        },
        errors: [
          ...READ_ERRORS,
          'invalid_json',
          'campaign_conflict',
          'codes_limit',
          'body_too_large',
          'unsupported_media_type',
        ],
      },
      async (call) => {
        const { req, res } = call;
        const operator = { name: apiKeys.require(req, 'admin'), requestId: req.requestId };
        const { id } = validate(params, req.params);
        const sendsCsv = CSV_TYPE.test(req.headers['content-type'] ?? '');
        const why = sendsCsv ? unreadableFile(req) : null;
        if (why !== null) throw call.refusal('unsupported_media_type', why);
        const body = sendsCsv ? null : validate(generateBody, await readJson(req));
        const campaign = await campaigns.find(id);
        const job = await (body
          ? codes.generate(campaign, body, operator)
          : importBody(req, res, limits.transferIdleMs, () => codes.import(campaign, req, operator)));
        log.info(
          { request_id: req.requestId, operator: operator.name, campaign: campaign.productId, job: job.id },
          `codes.${job.kind}`,
        );
        call.reply(202, view(job), ['Location', `/admin/campaigns/${campaign.id}/codes/jobs/${job.id}`]);
      },
    ),
    defineRoute(
      {
        operationId: 'getCodeJob',
        method: 'get',
        path: '/admin/campaigns/:id/codes/jobs/:job',
        summary: 'The progress of a job',
        tag: 'admin',
        caller: 'admin',
        params: jobParams,
        answers: { 200: { description: 'The job.', data: codeJobData } },
        errors: [...READ_ERRORS, 'code_job_not_found'],
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const { id, job } = validate(jobParams, req.params);
        call.reply(200, view(await codes.job(await campaigns.find(id), job)));
      },
    ),
    defineRoute(
      {
        operationId: 'exportCodes',
        method: 'get',
        path: '/admin/campaigns/:id/codes',
        summary: 'Export all codes of a campaign as CSV',
        description:
          'Columns `code,user_id`, in the order in which the codes were issued. The file can be imported again. An apostrophe precedes user ids ' +
          'that begin with `@` or `-`, which spreadsheets would treat as formulas; an import removes it.',
        tag: 'admin',
        caller: 'admin',
        params,
        answers: {
          200: {
            description: 'The codes, streamed.',
            contentTypes: ['text/csv'],
            headers: ['Content-Disposition'],
            optionalHeaders: [AS_OF],
          },
        },
        errors: READ_ERRORS,
      },
      async (call) => {
        const { req, res } = call;
        const actor = apiKeys.require(req, 'admin');
        const campaign = await campaigns.find(validate(params, req.params).id);
        const begin = (headers: string[]) => call.begin(200, [...headOf(req, campaign.productId), ...headers]);
        if (req.method === 'HEAD') {
          begin([]);
          res.end();
          return;
        }
        allowLongRequest(req, res, limits.transferIdleMs);
        const { table, headers } = await transferCodes();
        await writeExport(database, 'codes.export', { actor, requestId: req.requestId }, { campaignId: campaign.id });
        await table.exportTo(campaign.id, res, () => begin(headers));
      },
    ),
  ];
}

/** Runs an import. Discards the rest of a refused body, so that the client can read the response. */
async function importBody(req: Request, res: Response, idleMs: number, work: () => Promise<CodeJob>): Promise<CodeJob> {
  allowLongRequest(req, res, idleMs);
  try {
    return await work();
  } catch (error) {
    req.resume();
    throw error;
  }
}

/** Returns why a file cannot be read; null = it can be read. */
function unreadableFile(req: Request): string | null {
  const encoding = req.headers['content-encoding'];
  if (OTHER_CHARSET.test(req.headers['content-type'] ?? '')) return 'The file must be in UTF-8.';
  if (encoding !== undefined && encoding !== 'identity') return 'The body must not be compressed.';
  return null;
}

function headOf(req: Request, product: string): string[] {
  return [
    ...API_HEADERS,
    'Content-Type',
    'text/csv; charset=utf-8',
    'Content-Disposition',
    `attachment; filename="codes-${product.replace(/[^\w.-]/g, '_')}.csv"`,
    'Cache-Control',
    'no-store',
    'X-Request-Id',
    req.requestId,
  ];
}

function view(job: CodeJob): z.input<typeof codeJobData> {
  return {
    id: job.id,
    campaign_id: job.campaignId,
    kind: job.kind,
    status: job.status,
    total: job.total,
    processed: job.processed,
    progress: job.total === 0 ? Number(job.status === 'done') : Math.floor((job.processed / job.total) * 1000) / 1000,
    added: job.added,
    duplicates: job.duplicates,
    bad_lines: job.badLines,
    errors: job.errors,
    errors_omitted: job.duplicates + job.badLines - job.errors.length,
    failure: job.failure,
    created_at: job.createdAt.toISOString(),
    updated_at: job.updatedAt.toISOString(),
    finished_at: job.finishedAt?.toISOString() ?? null,
  };
}
