import type { Request } from 'express';
import { z } from 'zod';
import { ERROR_CODES, ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import { en, problemText } from '../../shared/sale-page/texts.js';
import { PROBLEM_TYPE, problemExample } from '../http/problem-schema.js';
import { errorsOf, type Route } from '../http/route.js';
import { API_HEADERS, PAGE_HEADERS } from '../http/security-headers.js';
import { type StaticFile, staticFile, staticRoute } from '../http/static-file.js';
import { plainPage } from './plain-page.js';
import { escapeHtml } from './sale-html.js';

const CACHED = 'public, max-age=300';
const VARY = ['Vary', 'Accept'];
const JSON_TYPE = 'application/json; charset=utf-8';
/** More operations than these are counted, not named. */
const MAX_OPERATIONS = 8;

type Described = { page: StaticFile; json: StaticFile };

/**
 * Routes of /errors, which lists the error codes, and /errors/:code: a page, or by `Accept` a problem document.
 * @param routes of the API, which say who returns a code
 */
export function errorRoutes(routes: readonly Route[]): Route[] {
  const entries = { data: ERROR_CODES.map((code) => problemOf(code, routes)) };
  const all = describe('Errors', listOf(ERROR_CODES), entries, JSON_TYPE);
  const byCode = new Map<string, Described>();
  for (const code of ERROR_CODES)
    byCode.set(code, describe(code, textOf(code, routes), problemOf(code, routes), PROBLEM_TYPE));
  const about = { tag: 'operations', guards: ['document_quota'] } as const;
  return [
    staticRoute({ ...about, path: '/errors', summary: 'All error codes' }, ['text/html', 'application/json'], (req) =>
      chosen(req, all),
    ),
    staticRoute(
      { ...about, path: '/errors/:code', summary: 'An error code', params: z.object({ code: z.string() }) },
      ['text/html', PROBLEM_TYPE],
      (req) => {
        const found = byCode.get(String(req.params.code));
        return found ? chosen(req, found) : null;
      },
    ),
  ];
}

function describe(title: string, html: string, document: object, type: string): Described {
  const json = Buffer.from(JSON.stringify(document));
  return {
    page: staticFile('text/html; charset=utf-8', plainPage(title, html), CACHED, [...PAGE_HEADERS, ...VARY]),
    json: staticFile(type, json, CACHED, [...API_HEADERS, ...VARY]),
  };
}

function chosen(req: Request, { page, json }: Described): StaticFile {
  return req.accepts([PROBLEM_TYPE, 'application/json', 'text/html']) === 'text/html' ? page : json;
}

/** The problem document of a code, for no request: `detail` says what to do, and nothing names a line of the log. */
function problemOf(code: ErrorCode, routes: readonly Route[]) {
  const { status, title, remedy } = ERRORS[code];
  const type = `https://doorbuster.dev/errors/${code}`;
  const operations = operationsWith(code, routes);
  return { type, title, status, detail: remedy, instance: `/errors/${code}`, code, retry: retryOf(code), operations };
}

function operationsWith(code: ErrorCode, routes: readonly Route[]): string[] {
  return routes
    .filter(({ contract }) => errorsOf(contract).includes(code))
    .map(({ contract }) => `${contract.method.toUpperCase()} ${contract.path}`);
}

/** Whether a client repeats the request. */
function retryOf(code: ErrorCode): string {
  const { status } = ERRORS[code];
  if (code === 'campaign_not_started') return 'Yes, at `starts_at`.';
  if (status === 429 || status === 503) return 'Yes, with the same idempotency key, after `Retry-After` seconds.';
  if (status >= 500) return 'Yes, with the same idempotency key and growing pauses.';
  if ([404, 405, 409, 410].includes(status)) return 'No: the same request gets the same response.';
  return 'Not as it is: correct the cause first.';
}

function textOf(code: ErrorCode, routes: readonly Route[]): string {
  const { status, title, remedy } = ERRORS[code];
  const operations = operationsWith(code, routes);
  const named = operations.slice(0, MAX_OPERATIONS).map((operation) => `<code>${escapeHtml(operation)}</code>`);
  const others = operations.length - named.length;
  const sentBy = [...named, ...(others > 0 ? [`${others} <a href="/docs">others</a>`] : [])].join('<br>');
  const rows = [
    ['HTTP status', String(status)],
    ['What to do', marked(remedy)],
    ['Retry', marked(retryOf(code))],
    ['Returned by', sentBy || 'every path that does not exist, or does not have the method'],
    ...(Object.hasOwn(en.problems, code) ? [['Shoppers read', escapeHtml(problemText(code, en))]] : []),
  ];
  return `<p>${escapeHtml(title)}.</p>
<table><tbody>
${rows.map(([name, value]) => `<tr><th scope="row">${name}</th><td>${value}</td></tr>`).join('\n')}
</tbody></table>
<h2>Example</h2>
<pre>Content-Type: ${PROBLEM_TYPE}

${escapeHtml(JSON.stringify(problemExample(code), null, 2))}</pre>
<p>Decide by <code>code</code>: <code>detail</code> is for people and may change. <code>instance</code> finds the response in the log.</p>
<p><a href="/errors">All errors</a> · <a href="/docs">API</a> · this page as a problem document: <code>Accept: ${PROBLEM_TYPE}</code></p>`;
}

function listOf(codes: readonly ErrorCode[]): string {
  const rows = codes.map((code) => {
    const { status, title, remedy } = ERRORS[code];
    return `<tr><td><a href="/errors/${code}"><code>${code}</code></a></td><td>${status}</td><td>${escapeHtml(title)}.<br>${marked(remedy)}</td></tr>`;
  });
  return `<table><thead><tr><th>code</th><th>status</th><th>meaning, and what to do</th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table>`;
}

/** Escapes a sentence, and marks what it quotes as code. */
function marked(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}
