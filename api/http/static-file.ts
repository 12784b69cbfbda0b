import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { defineRoute } from './define-route.js';
import type { Route, RouteContract } from './route.js';
import { PAGE_HEADERS } from './security-headers.js';

const zip = promisify(gzip);
const ACCEPTS = {
  br: /\bbr\b(?!\s*;\s*q=0(?![.\d]*[1-9]))/,
  gzip: /\bgzip\b(?!\s*;\s*q=0(?![.\d]*[1-9]))/,
};

/** A call of a route that sends files. */
type FileCall = { req: Request; res: Response; begin(status: number, fields: readonly string[]): void };

/**
 * A file that does not change while the process runs, kept in memory as it is and compressed.
 * @property zipped null until a client accepts gzip: few files are ever asked for, and the start does not wait for
 *   them; `never` = sent as it is, because a file for each request would cost more to compress than to send
 * @property brotli of a file that was compressed by the build; null = there is none
 */
export type StaticFile = {
  body: Buffer;
  zipped: Buffer | Promise<Buffer> | null | 'never';
  brotli: Buffer | null;
  etag: string;
  fields: readonly string[];
};

/**
 * Prepares a file.
 * @param type the media type
 * @param cacheControl `no-cache`: browsers revalidate each time (304), so that a page never mixes parts of two versions
 * @param headers flat list of names and values
 * @param vary request headers on which the file depends, besides `Accept-Encoding`
 */
export function staticFile(
  type: string,
  body: Buffer,
  cacheControl = 'no-cache',
  headers: readonly string[] = PAGE_HEADERS,
  vary: readonly string[] = [],
): StaticFile {
  const etag = `"${createHash('sha1').update(body).digest('base64url')}"`;
  const fields = [
    ...headers,
    'ETag',
    etag,
    'Cache-Control',
    cacheControl,
    'Vary',
    ['Accept-Encoding', ...vary].join(', '),
  ];
  return { body, zipped: null, brotli: null, etag, fields: [...fields, 'Content-Type', type] };
}

/** Makes what few processes need when it is asked for, once. */
export function madeOnce<Made>(make: () => Made): () => Made {
  let made: Made | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

/**
 * Returns a route that serves files.
 * @param contentTypes media types of the files
 * @param find returns the file of a request; null = not found
 * @param missing returns the page to send with 404 when a file is not found; null = a problem document
 */
export function staticRoute(
  about: Pick<RouteContract, 'path' | 'summary' | 'description' | 'tag' | 'params' | 'query' | 'guards'>,
  contentTypes: readonly string[],
  find: (req: Request) => StaticFile | Promise<StaticFile> | null,
  missing?: (req: Request) => StaticFile | null,
): Route {
  const contract = {
    ...about,
    operationId: 'getFile',
    method: 'get',
    caller: 'anyone',
    answers: {
      200: { description: about.summary, contentTypes, headers: ['ETag'] },
      304: { description: 'The client has the current version.', contentTypes, headers: ['ETag'] },
      ...(missing ? { 404: { description: 'A page: not found.', contentTypes, headers: ['ETag'] } } : {}),
    },
    errors: ['not_found'],
  } as const satisfies RouteContract;
  return defineRoute<RouteContract>(contract, async (call) => {
    const file = await find(call.req);
    if (file) return sendFile(call, file);
    const page = missing?.(call.req);
    if (!page) throw call.refusal('not_found', 'No resource exists at this path.');
    return sendFile(call, page, 404);
  });
}

/**
 * Sends a file: 304 if the client has the current version, compressed if the client accepts Brotli or gzip.
 * @param status of the response with a body
 */
export async function sendFile(call: FileCall, file: StaticFile, status = 200): Promise<void> {
  const { req, res } = call;
  const { etag, fields } = file;
  const always = [...fields, 'X-Request-Id', req.requestId];
  if (status === 200 && req.headers['if-none-match']?.split(/,\s*/).includes(etag)) {
    call.begin(304, always);
    res.end();
    return;
  }
  const [sent, encoding] = await encoded(req, file);
  call.begin(status, [...always, ...encoding, 'Content-Length', String(sent.length)]);
  res.end(sent);
}

/** The smallest form of a file that the client accepts, with the header that names it. */
async function encoded(req: Request, file: StaticFile): Promise<[Buffer, string[]]> {
  const { body, brotli } = file;
  if (brotli && accepts(req, 'br')) return [brotli, ['Content-Encoding', 'br']];
  if (file.zipped === 'never' || !accepts(req, 'gzip')) return [body, []];
  file.zipped ??= zip(body, { level: 9 });
  return [await file.zipped, ['Content-Encoding', 'gzip']];
}

/** Whether the client accepts a body in this encoding. */
export function accepts(req: Request, encoding: keyof typeof ACCEPTS): boolean {
  return ACCEPTS[encoding].test(String(req.headers['accept-encoding'] ?? ''));
}
