import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { Problem } from '../../shared/errors/catalogue.js';
import { asyncApiDocument } from '../http/asyncapi.js';
import { sendJson } from '../http/exchange.js';
import { openApiDocument } from '../http/openapi.js';
import type { Route } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';

const FILES: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Doorbuster API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/docs/swagger-ui.css"><link rel="icon" href="/docs/favicon-32x32.png"></head>
<body><div id="ui"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>`;
const START = "SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true });";

/** /openapi.json, /asyncapi.json, and /docs, which shows the former. Everything is served from here; nothing is loaded from elsewhere. */
export function docsRoutes(documented: readonly Route[], version: string): Route[] {
  const document = JSON.stringify(openApiDocument(documented, version));
  const frames = JSON.stringify(asyncApiDocument(version));
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const contract = (path: string, summary: string): Route['contract'] => ({
    method: 'get',
    path,
    summary,
    tag: 'operations',
    caller: 'anyone',
    answers: { 200: { description: summary } },
    errors: [],
  });
  return [
    {
      contract: contract('/openapi.json', 'The OpenAPI document'),
      handle: (req, res) => sendJson(req, res, 200, document),
    },
    {
      contract: contract('/asyncapi.json', 'The AsyncAPI document of the WebSocket'),
      handle: (req, res) => sendJson(req, res, 200, frames),
    },
    {
      contract: contract('/docs', 'The API, to read and to try'),
      handle: (req, res) => sendPage(req, res, 'text/html; charset=utf-8', Buffer.from(PAGE)),
    },
    {
      contract: { ...contract('/docs/:file', 'Parts of /docs'), params: z.object({ file: z.string() }) },
      async handle(req, res) {
        const file = String(req.params.file);
        if (file === 'start.js') return sendPage(req, res, 'text/javascript; charset=utf-8', Buffer.from(START));
        const type = Object.hasOwn(FILES, file) ? FILES[file] : undefined;
        if (!type) throw new Problem('not_found', 'There is nothing at this path.');
        sendPage(req, res, type, await readFile(join(folder, file)));
      },
    },
  ];
}

function sendPage(req: Request, res: Response, type: string, body: Buffer): void {
  res.writeHead(200, [
    ...PAGE_HEADERS,
    'Content-Type',
    type,
    'Content-Length',
    String(body.length),
    'Cache-Control',
    'max-age=300',
    'X-Request-Id',
    req.requestId,
  ]);
  res.end(body);
}
