import type { Request } from 'express';
import { z } from 'zod';
import { ERROR_CODES, ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import type { Route } from '../http/route.js';
import { API_HEADERS, PAGE_HEADERS } from '../http/security-headers.js';
import { type StaticFile, staticFile, staticRoute } from '../http/static-file.js';
import { plainPage } from './plain-page.js';
import { escapeHtml } from './sale-html.js';

const CACHED = 'public, max-age=300';
const VARY = ['Vary', 'Accept'];
const TYPES = ['text/html', 'application/json'] as const;

type Described = { page: StaticFile; json: StaticFile };

/** Routes of /errors, which lists the error codes, and /errors/:code: a page, or JSON by `Accept`. */
export async function errorRoutes(): Promise<Route[]> {
  const all = await describe('Errors', listOf(ERROR_CODES), ERROR_CODES.map(entryOf));
  const byCode = new Map<string, Described>();
  for (const code of ERROR_CODES) byCode.set(code, await describe(code, textOf(code), entryOf(code)));
  const about = { tag: 'operations', guards: ['document_quota'] } as const;
  return [
    staticRoute({ ...about, path: '/errors', summary: 'All error codes' }, TYPES, (req) => chosen(req, all)),
    staticRoute(
      { ...about, path: '/errors/:code', summary: 'An error code', params: z.object({ code: z.string() }) },
      TYPES,
      (req) => {
        const found = byCode.get(String(req.params.code));
        return found ? chosen(req, found) : null;
      },
    ),
  ];
}

async function describe(title: string, html: string, data: unknown): Promise<Described> {
  const json = Buffer.from(JSON.stringify({ data }));
  return {
    page: await staticFile('text/html; charset=utf-8', plainPage(title, html), CACHED, [...PAGE_HEADERS, ...VARY]),
    json: await staticFile('application/json; charset=utf-8', json, CACHED, [...API_HEADERS, ...VARY]),
  };
}

function chosen(req: Request, { page, json }: Described): StaticFile {
  return req.accepts(['application/json', 'text/html']) === 'text/html' ? page : json;
}

function entryOf(code: ErrorCode) {
  const { status, title, remedy } = ERRORS[code];
  return { code, type: `https://doorbuster.dev/errors/${code}`, status, title, remedy };
}

function textOf(code: ErrorCode): string {
  const { status, title, remedy } = ERRORS[code];
  return `<p>${escapeHtml(title)}.</p>
<p><strong>What to do:</strong> ${marked(remedy)}</p>
<p>HTTP status ${status}. <a href="/errors">All errors</a> · <a href="/docs">API</a></p>`;
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
