import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { PAGE_HEADERS } from './security-headers.js';

const zip = promisify(gzip);
const ACCEPTS_GZIP = /\bgzip\b(?!\s*;\s*q=0(?![.\d]*[1-9]))/;

/** A file that never changes while the process runs: in memory once, compressed once. */
export type StaticFile = { body: Buffer; zipped: Buffer; etag: string; fields: readonly string[] };

/**
 * Prepares a file.
 * @param type the media type
 * @param cacheControl `no-cache`: browsers ask each time and get 304, so that parts of two versions never meet in one page
 * @param headers flat list of names and values
 */
export async function staticFile(
  type: string,
  body: Buffer,
  cacheControl = 'no-cache',
  headers: readonly string[] = PAGE_HEADERS,
): Promise<StaticFile> {
  const etag = `"${createHash('sha1').update(body).digest('base64url')}"`;
  const fields = [...headers, 'ETag', etag, 'Cache-Control', cacheControl, 'Vary', 'Accept-Encoding'];
  return { body, zipped: await zip(body, { level: 9 }), etag, fields: [...fields, 'Content-Type', type] };
}

/** Sends a file: 304 when the client has it, compressed when the client takes gzip. */
export function sendStaticFile(req: Request, res: Response, { body, zipped, etag, fields }: StaticFile): void {
  const always = [...fields, 'X-Request-Id', req.requestId];
  if (req.headers['if-none-match']?.split(/,\s*/).includes(etag)) {
    res.writeHead(304, always);
    res.end();
    return;
  }
  const zips = acceptsGzip(req);
  const sent = zips ? zipped : body;
  const encoding = zips ? ['Content-Encoding', 'gzip'] : [];
  res.writeHead(200, [...always, ...encoding, 'Content-Length', String(sent.length)]);
  res.end(sent);
}

/** Whether the client takes a gzip body. */
export function acceptsGzip(req: Request): boolean {
  return ACCEPTS_GZIP.test(String(req.headers['accept-encoding'] ?? ''));
}
