import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { Request, Response } from 'express';
import { projectRoot } from '../../shared/config/project-root.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Route } from '../http/route.js';
import { type StaticFile, sendStaticFile, staticFile } from '../http/static-file.js';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};
/** Folders of dist/ that browsers may read: compiled for them, and importing one another by these paths. */
const FOLDERS = ['client', 'client/hashes', 'pages/sale', 'pages/admin'];

/**
 * The shopper's page, /sale/:product_id, and the operator's, /admin, with their scripts and styles under /assets. The files are few and small, so each
 * process has all of them in memory, compressed once.
 */
export async function pageRoutes(): Promise<Route[]> {
  const files = new Map<string, StaticFile>();
  for (const folder of FOLDERS) {
    for (const name of await readdir(join(projectRoot(), 'dist', folder))) {
      const type = TYPES[extname(name)];
      if (!type) continue;
      const body = await readFile(join(projectRoot(), 'dist', folder, name));
      files.set(`/assets/${folder}/${name}`, await staticFile(type, body));
    }
  }
  const pageOf = (path: string): StaticFile => {
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
        sendStaticFile(req, res, sale);
      },
    },
    {
      // Nothing secret is in it: what it shows it asks for with the session.
      contract: contract('/admin', 'The operator’s page'),
      handle: (req, res) => sendStaticFile(req, res, admin),
    },
    ...[...files].map(([path, file]) => ({
      contract: contract(path, 'A part of a page'),
      handle: (req: Request, res: Response) => sendStaticFile(req, res, file),
    })),
  ];
}

function contract(path: string, summary: string): Route['contract'] {
  const answers = { 200: { description: summary } };
  return { method: 'get', path, summary, tag: 'flash sale', caller: 'anyone', answers, errors: [] };
}
