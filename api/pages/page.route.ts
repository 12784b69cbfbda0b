import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import type { Route } from '../http/route.js';
import { PAGE_HEADERS, securityHeaders } from '../http/security-headers.js';
import { type StaticFile, staticFile, staticRoute } from '../http/static-file.js';
import { calendarRoute } from './calendar.route.js';
import { manifestRoute } from './manifest.route.js';
import type { PublicSales } from './public-sales.js';
import { type SalePageDeps, salePageRoute } from './sale-page.route.js';

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};
/** Modules of the client, which pages of shops may load as they are. Their names stay the same in every version. */
const MODULES = ['client', 'client/hashes'];
const REVALIDATED = 'no-cache';
/** Pages of any origin may load them. */
const MODULE_HEADERS = [
  ...securityHeaders({ crossOriginResourcePolicy: { policy: 'cross-origin' } }),
  ...['Access-Control-Allow-Origin', '*'],
];
/** Its pages are not below its folder, so it names the scope. */
const WORKER_HEADERS = [...PAGE_HEADERS, 'Service-Worker-Allowed', '/sale/'];
/** Files whose names have the hash of their contents. */
const BUNDLES = 'assets';
const FOR_EVER = 'public, max-age=31536000, immutable';

export type PagesDeps = Omit<SalePageDeps, 'template'> & { publicSales: PublicSales };

/**
 * Routes of the shopper's page, /sale/:product_id, and the operator's page, /admin, with their scripts and styles under
 * /assets. The files are few and small, so each process keeps all of them in memory.
 */
export async function pageRoutes(deps: PagesDeps): Promise<Route[]> {
  const dist = join(projectRoot(), 'dist');
  const files = new Map<string, StaticFile>();
  const add = async (folder: string, prefix: string, cacheControl: string, headers = PAGE_HEADERS) => {
    for (const name of await readdir(join(dist, folder))) {
      const type = TYPES[extname(name)];
      const body = type ? await readFile(join(dist, folder, name)) : null;
      if (!type || !body) continue;
      const brotli = await readFile(join(dist, folder, `${name}.br`)).catch(() => null);
      files.set(`${prefix}/${name}`, { ...staticFile(type, body, cacheControl, headers), brotli });
    }
  };
  await add(BUNDLES, '/assets', FOR_EVER);
  for (const folder of MODULES) await add(folder, `/assets/${folder}`, REVALIDATED, MODULE_HEADERS);
  const worker = await readFile(join(dist, 'pages/sale/push-worker.js'));
  files.set('/assets/push-worker.js', staticFile(String(TYPES['.js']), worker, REVALIDATED, WORKER_HEADERS));
  const admin = staticFile('text/html; charset=utf-8', await readFile(join(dist, 'pages/admin/admin.html')));
  const template = await readFile(join(dist, 'pages/sale/sale.html'), 'utf8');
  const tag = 'flash sale';
  return [
    salePageRoute({ ...deps, template }),
    calendarRoute(deps.publicSales),
    manifestRoute(deps.publicSales),
    // The page contains no secrets; it loads its data with the operator's session.
    staticRoute({ path: '/admin', summary: 'The operator’s page', tag }, ['text/html'], () => admin),
    ...[...files].map(([path, file]) =>
      staticRoute({ path, summary: 'A file of a page', tag }, ['text/css', 'text/javascript'], () => file),
    ),
  ];
}
