import { STATUS_CODES } from 'node:http';
import type { Request } from 'express';
import { z } from 'zod';
import { ERROR_CODES, ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import { en, problemText } from '../../shared/sale-page/texts.js';
import { PROBLEM_TYPE, problemExample } from '../http/problem-schema.js';
import { errorsOf, type Route } from '../http/route.js';
import { API_HEADERS, PAGE_HEADERS } from '../http/security-headers.js';
import { madeOnce, type StaticFile, staticFile, staticRoute } from '../http/static-file.js';
import { ADVICE } from './error-advice.js';
import { escapeHtml } from './sale-html.js';
import { codeHtml, factsHtml, pageHead, type ServerPage } from './server-page.js';

const CACHED = 'public, max-age=300';
const VARY = ['Vary', 'Accept'];
const JSON_TYPE = 'application/json; charset=utf-8';
/** More operations than these are counted, not named. */
const MAX_OPERATIONS = 8;

type Described = { page: StaticFile; json: StaticFile };

/**
 * Routes of /errors, which lists the error codes, and /errors/:code: a page, or by `Accept` a problem document. Each is
 * made with its first request, because most processes never get one.
 * @param routes of the API, which say who returns a code
 */
export function errorRoutes(routes: readonly Route[], page: ServerPage): Route[] {
  const all = madeOnce(() => {
    const entries = { data: ERROR_CODES.map((code) => problemOf(code, routes)) };
    return describe(page('Errors – Doorbuster', listOf(ERROR_CODES)), entries, JSON_TYPE);
  });
  const byCode = new Map<string, () => Described>(
    ERROR_CODES.map((code) => [
      code,
      madeOnce(() => {
        const html = page(`${code} – Doorbuster errors`, pageOf(code, routes));
        return describe(html, problemOf(code, routes), PROBLEM_TYPE);
      }),
    ]),
  );
  const unknown = madeOnce(() => pageFile(page('No such error code – Doorbuster errors', UNKNOWN), 'no-store'));
  const about = { tag: 'operations', guards: ['document_quota'] } as const;
  return [
    staticRoute({ ...about, path: '/errors', summary: 'All error codes' }, ['text/html', 'application/json'], (req) =>
      chosen(req, all()),
    ),
    staticRoute(
      { ...about, path: '/errors/:code', summary: 'An error code', params: z.object({ code: z.string() }) },
      ['text/html', PROBLEM_TYPE],
      (req) => {
        const found = byCode.get(String(req.params.code));
        return found ? chosen(req, found()) : null;
      },
      (req) => (prefersPage(req) ? unknown() : null),
    ),
  ];
}

function describe(html: Buffer, document: object, type: string): Described {
  const json = Buffer.from(JSON.stringify(document));
  return {
    page: pageFile(html, CACHED),
    json: staticFile(type, json, CACHED, [...API_HEADERS, ...VARY]),
  };
}

const pageFile = (html: Buffer, cacheControl: string): StaticFile =>
  staticFile('text/html; charset=utf-8', html, cacheControl, [...PAGE_HEADERS, ...VARY]);

const chosen = (req: Request, { page, json }: Described): StaticFile => (prefersPage(req) ? page : json);

/** Whether the client is a browser that opens a page. */
const prefersPage = (req: Request): boolean =>
  req.accepts([PROBLEM_TYPE, 'application/json', 'text/html']) === 'text/html';

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
  if ([404, 405, 409, 410].includes(status)) return 'No: the response stays the same until its cause changes.';
  return 'Not as it is: correct the cause first.';
}

const LINKS = [
  ['/errors', 'All error codes'],
  ['/docs', 'API'],
] as const;

const UNKNOWN = `${pageHead(LINKS)}
<main>
<div class="hero">
<p class="mark">HTTP 404 ${STATUS_CODES[404]}</p>
<h1>There is no such error code</h1>
<p class="lead">Check the address: the code may be misspelled, or belong to another version. <a href="/errors">All error codes</a></p>
</div>
</main>`;

function pageOf(code: ErrorCode, routes: readonly Route[]): string {
  const { status, title } = ERRORS[code];
  const retry = retryOf(code);
  const see = ADVICE[code]?.see ?? [];
  const others = see.map((other) => `<li>${linkTo(other)}<span>${marked(ERRORS[other].title)}.</span></li>`);
  return `${pageHead(LINKS)}
<main>
<div class="hero">
<p class="mark">HTTP ${status} ${STATUS_CODES[status] ?? ''}</p>
<h1><code>${code}</code></h1>
<p class="lead">${escapeHtml(title)}.</p>
</div>
<section aria-label="In short">
${factsHtml([
  { name: 'Retry', html: marked(retry), tone: retry.startsWith('Yes') ? 'good' : 'bad' },
  { name: 'Returned by', html: sentBy(code, routes) },
])}
</section>
<section>
<h2>What to do</h2>
<div class="for">
${adviceHtml(code)}
</div>
</section>
<section>
<h2>Example</h2>
${codeHtml('example', PROBLEM_TYPE, JSON.stringify(problemExample(code), null, 2))}
<p class="note">Decide by <code>code</code>: <code>detail</code> is for people and may change. <code>instance</code> finds the response in the log. This page as a problem document: <code>Accept: ${PROBLEM_TYPE}</code></p>
</section>
${others.length > 0 ? `<section>\n<h2>Often confused with</h2>\n<ul class="list">${others.join('')}</ul>\n</section>` : ''}
</main>`;
}

/** One column for each reader to whom there is something to say. */
function adviceHtml(code: ErrorCode): string {
  const operator = ADVICE[code]?.operator;
  const columns = [
    ['As a client developer', marked(ERRORS[code].remedy)],
    ...(Object.hasOwn(en.problems, code)
      ? [['As a shopper', `The sale page says: “${escapeHtml(problemText(code, en))}”`]]
      : []),
    ...(operator ? [['As an operator', marked(operator)]] : []),
  ];
  return columns.map(([reader, html]) => `<div><h3>${reader}</h3><p>${html}</p></div>`).join('\n');
}

function sentBy(code: ErrorCode, routes: readonly Route[]): string {
  const operations = operationsWith(code, routes);
  const named = operations.slice(0, MAX_OPERATIONS).map((operation) => `<code>${escapeHtml(operation)}</code>`);
  const others = operations.length - named.length;
  const all = [...named, ...(others > 0 ? [`${others} <a href="/docs">others</a>`] : [])].join('<br>');
  return all || 'every path that does not exist, or does not have the method';
}

const linkTo = (code: ErrorCode): string => `<a href="/errors/${code}"><code>${code}</code></a>`;

function listOf(codes: readonly ErrorCode[]): string {
  const items = codes.map((code) => {
    const { status, title, remedy } = ERRORS[code];
    return `<li>${linkTo(code)} ${status}<span>${escapeHtml(title)}. ${marked(remedy)}</span></li>`;
  });
  return `${pageHead([['/docs', 'API']])}
<main>
<div class="hero">
<h1>Errors</h1>
<p class="lead">Every error is a problem document (RFC 9457). Clients decide by its <code>code</code>.</p>
</div>
<ul class="list">
${items.join('\n')}
</ul>
</main>`;
}

/** Escapes a sentence, and marks what it quotes as code. */
function marked(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}
