import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import type { Route } from '../http/route.js';
import { type StaticFile, staticFile, staticRoute } from '../http/static-file.js';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};
/** Folders of dist/ that are served to browsers. Their modules import each other by these paths. */
const FOLDERS = ['client', 'client/hashes', 'pages/sale', 'pages/admin'];
/** Files of the server that pages share. */
const SHARED = ['shared/domain/phase.js'];

/**
 * Routes of the shopper's page, /sale/:product_id, and the operator's page, /admin, with their scripts and styles under
 * /assets. The files are few and small, so each process keeps all of them in memory, compressed once.
 */
export async function pageRoutes(): Promise<Route[]> {
  const files = new Map<string, StaticFile>();
  const dist = join(projectRoot(), 'dist');
  const ours = FOLDERS.map(async (folder) => (await readdir(join(dist, folder))).map((name) => `${folder}/${name}`));
  for (const path of [...(await Promise.all(ours)).flat(), ...SHARED]) {
    const type = TYPES[extname(path)];
    if (type) files.set(`/assets/${path}`, await staticFile(type, await readFile(join(dist, path))));
  }
  const pageOf = (path: string): StaticFile => {
    const page = files.get(path);
    if (!page) throw new Error(`${path} is missing in dist/; run \`npm run build\``);
    return page;
  };
  const [sale, admin] = [pageOf('/assets/pages/sale/sale.html'), pageOf('/assets/pages/admin/admin.html')];
  const tag = 'flash sale';
  return [
    staticRoute({ path: '/sale/:product_id', summary: 'The page of a sale', tag }, ['text/html'], (req) =>
      EXTERNAL_ID_PATTERN.test(String(req.params.product_id)) ? sale : null,
    ),
    // The page contains no secrets; it loads its data with the operator's session.
    staticRoute({ path: '/admin', summary: 'The operator’s page', tag }, ['text/html'], () => admin),
    ...[...files].map(([path, file]) =>
      staticRoute({ path, summary: 'A file of a page', tag }, ['text/html', 'text/css', 'text/javascript'], () => file),
    ),
  ];
}
