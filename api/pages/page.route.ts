import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { projectRoot } from '../../shared/config/project-root.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Route } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};
/** Folders of dist/ that browsers may read: compiled for them, and importing one another by these paths. */
const FOLDERS = ['client', 'pages/sale', 'pages/admin'];
const zip = promisify(gzip);

type PageFile = { type: string; body: Buffer; zipped: Buffer; etag: string };

/**
 * The shopper's page, /sale/:product_id, and the operator's, /admin, with their scripts and styles under /assets. The files are few and small, so each
 * process has all of them in memory, compressed once.
 */
export async function pageRoutes(): Promise<Route[]> {
  const files = new Map<string, PageFile>();
  for (const folder of FOLDERS) {
    for (const name of await readdir(join(projectRoot(), 'dist', folder))) {
      const type = TYPES[extname(name)];
      if (type)
        files.set(`/assets/${folder}/${name}`, await readPageFile(join(projectRoot(), 'dist', folder, name), type));
    }
  }
  const pageOf = (path: string): PageFile => {
    const page = files.get(path);
    if (!page) throw new Error(`${path} is missing in dist/; run \`npm run build\``);
    return page;
  };
  const [sale, admin] = [pageOf('/assets/pages/sale/sale.html'), pageOf('/assets/pages/admin/admin.html')];
  return [
    {
      contract: contract('/sale/:product_id', 'The page of a sale'),
      handle(req, res) {
        if (!EXTERNAL_ID_PATTERN.test(String(req.params.product_id)))
          throw new Problem('not_found', 'There is nothing at this path.');
        sendFile(req, res, sale);
      },
    },
    {
      // Nothing secret is in it: what it shows it asks for with the session.
      contract: contract('/admin', 'The operator’s page'),
      handle: (req, res) => sendFile(req, res, admin),
    },
    ...[...files].map(([path, file]) => ({
      contract: contract(path, 'A part of a page'),
      handle: (req: Request, res: Response) => sendFile(req, res, file),
    })),
  ];
}

function contract(path: string, summary: string): Route['contract'] {
  const answers = { 200: { description: summary } };
  return { method: 'get', path, summary, tag: 'flash sale', caller: 'anyone', answers, errors: [] };
}

async function readPageFile(path: string, type: string): Promise<PageFile> {
  const body = await readFile(path);
  const etag = `"${createHash('sha1').update(body).digest('base64url')}"`;
  return { type, body, zipped: await zip(body, { level: 9 }), etag };
}

function sendFile(req: Request, res: Response, { type, body, zipped, etag }: PageFile): void {
  const always = [
    ...PAGE_HEADERS,
    'ETag',
    etag,
    // Asked again each time, and answered with 304: parts of two versions never meet in one page.
    'Cache-Control',
    'no-cache',
    'Vary',
    'Accept-Encoding',
    'X-Request-Id',
    req.requestId,
  ];
  if (req.headers['if-none-match']?.split(/,\s*/).includes(etag)) {
    res.writeHead(304, always);
    res.end();
    return;
  }
  const zips = /\bgzip\b(?!\s*;\s*q=0(?![.\d]*[1-9]))/.test(String(req.headers['accept-encoding'] ?? ''));
  const sent = zips ? zipped : body;
  const encoding = zips ? ['Content-Encoding', 'gzip'] : [];
  res.writeHead(200, [...always, ...encoding, 'Content-Type', type, 'Content-Length', String(sent.length)]);
  res.end(sent);
}
