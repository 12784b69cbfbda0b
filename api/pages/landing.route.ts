import type { Request } from 'express';
import type { Config } from '../../shared/config/config.js';
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

/** Request headers that a proxy adds. */
const OF_PROXY = /^(?:via|forwarded|x-forwarded-.+|x-real-ip)$/;

/**
 * GET /. In production a page that names the API. In development it also leads to the sales, to the operator's page
 * and to where the keys are. With DEMO it shows the keys to callers on this machine.
 */
export function landingRoute(
  campaigns: Pick<CampaignsTable, 'live'>,
  config: Pick<Config, 'development' | 'showsKeys' | 'adminKeys' | 'serviceKeys' | 'opsPort'>,
): Route {
  if (!config.development) {
    const page = staticFile(HTML, plainPage('Doorbuster', `<p>Flash sales and coupons.</p>\n${LINKS}`));
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
    const keys = config.showsKeys && isFromThisMachine(call.req) ? keysHtml(config) : KEYS_HINT;
    const body = plainPage('Doorbuster runs here', developmentHtml(await salesHtml(campaigns), keys, config));
    call.begin(200, [
      ...[...PAGE_HEADERS, 'Content-Type', HTML, 'Content-Length', String(body.length)],
      ...['Cache-Control', 'no-store', 'X-Request-Id', call.req.requestId],
    ]);
    call.res.end(body);
  });
}

/**
 * Whether a request comes from a browser on this machine. The name in `Host` is checked because a page of another site
 * could read this one over a name of its own that resolves to this machine. A proxy on this machine would let everyone
 * in; one that adds no headers calls by HTTP/1.0, as nginx does unless it is configured.
 */
function isFromThisMachine({ socket, headers, httpVersion }: Request): boolean {
  return (
    /^(?:::1|(?:::ffff:)?127\.[\d.]+)$/.test(socket.remoteAddress ?? '') &&
    /^(?:localhost|127\.0\.0\.1)(?::\d+)?$/i.test(headers.host ?? '') &&
    httpVersion === '1.1' &&
    !Object.keys(headers).some((name) => OF_PROXY.test(name))
  );
}

const KEYS_HINT = `<p><code>npm start</code> printed the keys, and keeps them in <code>.data/secrets.json</code>
(<code>DATA_DIR</code>):</p>
<pre>node -p "JSON.parse(fs.readFileSync('.data/secrets.json')).ADMIN_API_KEYS.split(':')[1]"</pre>`;

function keysHtml({ adminKeys, serviceKeys }: Pick<Config, 'adminKeys' | 'serviceKeys'>): string {
  const row = (title: string, use: string, secret = '') =>
    `<tr><td>${title}</td><td>${use}</td><td><code>${escapeHtml(secret)}</code></td></tr>`;
  return `<table>
${row('Admin key', 'for <a href="/admin">the operator’s page</a>', adminKeys[0]?.secret)}
${row('Service key', 'for the shop’s server', serviceKeys[0]?.secret)}
</table>
<p>Only browsers on this machine see them, and only keys that <code>npm start</code> generated.</p>`;
}

function developmentHtml(sales: string, keys: string, { opsPort }: Pick<Config, 'opsPort'>): string {
  return `<h2>Sales</h2>
${sales}
<h2>Operators</h2>
<p><a href="/admin">The operator’s page</a> asks for the admin key.</p>
<h2>Keys</h2>
${keys}
<h2>Developers</h2>
${LINKS}
<p>Guides are in the folder <code>docs</code>: sell your first 100 units with <code>docs/start.md</code>, connect a shop with
<code>docs/integrate.md</code>.</p>
<p>Webhooks on this machine: <code>npm run webhooks:listen -- --test</code></p>
<h2>State</h2>
<p><a href="/readyz">Health</a>${opsPort === null ? ' · <a href="/metrics">Metrics</a>' : ', and metrics on <code>OPS_PORT</code>'}</p>`;
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
