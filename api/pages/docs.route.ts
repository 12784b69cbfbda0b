import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Request } from 'express';
import { z } from 'zod';
import { asyncApiDocument } from '../http/asyncapi.js';
import { openApiDocument, withoutWebhooks } from '../http/openapi.js';
import type { Route } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { madeOnce, staticFile, staticRoute } from '../http/static-file.js';
import { validate } from '../http/validate.js';

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

const openApiQuery = z.object({
  webhooks: z.enum(['0', '1']).default('1').describe('0: without webhooks, on which some generators fail'),
});

const CACHED = 'max-age=300';
const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * Routes of /openapi.json, /asyncapi.json and /docs, which shows the first. All files are served from memory. Both
 * documents are made with their first request, because most processes never get one.
 */
export async function docsRoutes(documented: readonly Route[], version: string): Promise<Route[]> {
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const json = (document: object) =>
    staticFile(JSON_TYPE, Buffer.from(JSON.stringify(document)), 'no-cache', API_HEADERS);
  const openApi = madeOnce(() =>
    openApiDocument(documented, version).then((document) => ({
      all: json(document),
      calls: json(withoutWebhooks(document)),
    })),
  );
  const getOpenApi = async (req: Request) => {
    const { webhooks } = validate(openApiQuery, req.query);
    return (await openApi())[webhooks === '0' ? 'calls' : 'all'];
  };
  const getAsyncApi = madeOnce(() => asyncApiDocument(version).then(json));
  const page = staticFile('text/html; charset=utf-8', Buffer.from(PAGE), CACHED);
  const parts = new Map([['start.js', staticFile('text/javascript; charset=utf-8', Buffer.from(START), CACHED)]]);
  for (const [name, type] of Object.entries(FILES)) {
    parts.set(name, staticFile(type, await readFile(join(folder, name)), CACHED));
  }
  const about = (path: string, summary: string) =>
    ({ path, summary, tag: 'operations', guards: ['document_quota'] }) as const;
  return [
    staticRoute(
      { ...about('/openapi.json', 'The OpenAPI document'), query: openApiQuery },
      ['application/json'],
      getOpenApi,
    ),
    staticRoute(
      about('/asyncapi.json', 'The AsyncAPI document of the WebSocket and of events'),
      ['application/json'],
      getAsyncApi,
    ),
    staticRoute(about('/docs', 'The interactive documentation of the API'), ['text/html'], () => page),
    staticRoute(
      { ...about('/docs/:file', 'Files of /docs'), params: z.object({ file: z.string() }) },
      ['text/css', 'text/javascript', 'image/png'],
      (req) => parts.get(String(req.params.file)) ?? null,
    ),
  ];
}
