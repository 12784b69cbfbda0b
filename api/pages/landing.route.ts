import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';
import { staticFile, staticRoute } from '../http/static-file.js';
import { plainPage } from './plain-page.js';
import { escapeHtml } from './sale-html.js';

const MAX_SALES = 20;
const HTML = 'text/html; charset=utf-8';
const about = {
  path: '/',
  summary: 'What this server is',
  tag: 'operations',
  guards: ['document_quota'],
} as const;

const LINKS = `<ul>
<li><a href="/docs">API</a>, for generators: <a href="/openapi.json">OpenAPI</a>, <a href="/asyncapi.json">AsyncAPI</a></li>
<li><a href="/errors">Error codes</a></li>
</ul>`;

/**
 * GET /. In production a page that names the API. In development it also leads to the sales, to the operator's page
 * and to where the keys are; it never shows a key, because another page could read it over a name that resolves here.
 */
export async function landingRoute(campaigns: Pick<CampaignsTable, 'live'>, isDevelopment: boolean): Promise<Route> {
  if (!isDevelopment) {
    const page = await staticFile(HTML, plainPage('Doorbuster', `<p>Flash sales and coupons.</p>\n${LINKS}`));
    return staticRoute(about, ['text/html'], () => page);
  }
  const contract = {
    ...about,
    operationId: 'getLandingPage',
    method: 'get',
    caller: 'anyone',
    answers: { 200: { description: 'Links into this server.', contentTypes: ['text/html'] } },
    errors: [],
  } as const satisfies RouteContract;
  return defineRoute<RouteContract>(contract, async (call) => {
    const body = plainPage('Doorbuster runs here', developmentHtml(await salesHtml(campaigns)));
    call.begin(200, [
      ...[...PAGE_HEADERS, 'Content-Type', HTML, 'Content-Length', String(body.length)],
      ...['Cache-Control', 'no-store', 'X-Request-Id', call.req.requestId],
    ]);
    call.res.end(body);
  });
}

function developmentHtml(sales: string): string {
  return `<h2>Sales</h2>
${sales}
<h2>Operators</h2>
<p><a href="/admin">The operator’s page</a> asks for the admin key. <code>npm start</code> printed it, and keeps it in
<code>.data/secrets.json</code> (<code>DATA_DIR</code>):</p>
<pre>node -p "JSON.parse(fs.readFileSync('.data/secrets.json')).ADMIN_API_KEYS.split(':')[1]"</pre>
<h2>Developers</h2>
${LINKS}
<p>Webhooks on this machine: <code>npm run webhooks:listen -- --test</code></p>
<h2>State</h2>
<p><a href="/readyz">Health</a> · <a href="/metrics">Metrics</a></p>`;
}

async function salesHtml(campaigns: Pick<CampaignsTable, 'live'>): Promise<string> {
  try {
    const sales = (await campaigns.live()).slice(-MAX_SALES).reverse();
    if (sales.length === 0) return '<p>There is none yet. Create one on the <a href="/admin">operator’s page</a>.</p>';
    const items = sales.map(
      ({ productId, name, status }) =>
        `<li><a href="/sale/${encodeURIComponent(productId)}">${escapeHtml(name)}</a> (${escapeHtml(status)})</li>`,
    );
    return `<ul>${items.join('')}</ul>`;
  } catch (error) {
    if (!(error instanceof EngineUnavailable)) throw error;
    return '<p>The list cannot be read now; see <a href="/readyz">Health</a>.</p>';
  }
}
