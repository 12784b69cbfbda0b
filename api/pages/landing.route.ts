import type { Request } from 'express';
import type { Config } from '../../shared/config/config.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { PAGE_HEADERS } from '../http/security-headers.js';
import { staticFile, staticRoute } from '../http/static-file.js';
import { escapeHtml } from './sale-html.js';
import { codeHtml, copyButton, factsHtml, NOTHING_HERE, pageHead, type ServerPage } from './server-page.js';

const MAX_SALES = 20;
/** The demo campaign of `npm start` (scripts/demo.mjs). */
const DEMO_PRODUCT = 'flash-indomie-2026';
/** Campaigns of `npm run loadtest`. */
const OF_LOAD_TEST = /^load-/;
const HTML = 'text/html; charset=utf-8';
const about = {
  path: '/',
  summary: 'What this server is',
  tag: 'operations',
  guards: ['document_quota'],
} as const;

/** Request headers that a proxy adds. */
const OF_PROXY = /^(?:via|forwarded|x-forwarded-.+|x-real-ip)$/;

type Check = { ok: boolean; detail: string };
export type LandingDeps = {
  page: ServerPage;
  campaigns: Pick<CampaignsTable, 'live'>;
  /** Units of a campaign; `free` null = unlimited. @throws EngineUnavailable */
  stock: (product: ProductId) => Promise<{ free: number | null } | null>;
  /** As `/readyz` has it. */
  readiness: { run: () => Promise<{ ready: boolean; checks: Record<string, Check> }> };
  /** Names of the workers that are alive. @throws EngineUnavailable */
  workers: () => Promise<string[]>;
  version: string;
  config: Pick<Config, 'development' | 'showsKeys' | 'adminKeys' | 'serviceKeys' | 'opsPort'>;
};

/**
 * GET /. In production a page without a name. In development the state of the engines, and where everything is. With
 * DEMO it shows the keys to callers on this machine.
 */
export function landingRoute(deps: LandingDeps): Route {
  const { page, config } = deps;
  if (!config.development) {
    const plain = staticFile(HTML, page('No page at this address', NOTHING_HERE, 'plain'));
    return staticRoute(about, ['text/html'], () => plain);
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
    const keys = config.showsKeys && isFromThisMachine(call.req) ? config : null;
    const body = page('Doorbuster is running', await developmentHtml(deps, keys, addressOf(call.req)));
    call.begin(200, [
      ...[...PAGE_HEADERS, 'Content-Type', HTML, 'Content-Length', String(body.length)],
      ...['Cache-Control', 'no-store', 'X-Request-Id', call.req.requestId],
    ]);
    call.res.end(body);
  });
}

/** The address under which the client has called. It is part of commands, so only characters of a host are taken. */
function addressOf(req: Request): string {
  const host = req.get('host') ?? '';
  return `${req.protocol}://${/^[\w.:[\]-]+$/.test(host) ? host : 'localhost'}`;
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

type Keys = Pick<Config, 'adminKeys' | 'serviceKeys'>;

async function developmentHtml(deps: LandingDeps, keys: Keys | null, address: string): Promise<string> {
  const { config, version } = deps;
  const [state, sales] = await Promise.all([stateHtml(deps, address), readSales(deps.campaigns)]);
  const metrics = config.opsPort === null ? [['/metrics', 'Metrics'] as const] : [];
  const offered = await saleToOffer(sales ?? [], deps.stock);
  return `${pageHead([['/docs', 'API'], ['/errors', 'Errors'], ['/readyz', 'Health'], ...metrics], 'Development')}
<main>
<div class="door">
${DOOR}
<h1>Doorbuster is running</h1>
<p class="lead">A server for flash sales and coupons. It sells each unit exactly once, puts everyone else in a line with a strict order, and gives an unpaid unit to the next person.</p>
</div>
<section aria-label="State">${state}</section>
<section>
<h2>Open</h2>
<div class="strip">
${offered ? doorTo(`/sale/${encodeURIComponent(offered.productId)}`, 'The shopper’s page', `Buy “${offered.name}”.`) : ''}
${doorTo('/admin', 'The operator’s page', 'Create sales, and follow stock and line as they change. It asks for the admin key.')}
${doorTo('/docs', 'API reference', 'Each call with examples. Try it in the browser.')}
</div>
</section>
${offered ? sessionHtml(offered, keys, address) : ''}
<div class="two">
<section>
<h2>Sales</h2>
${salesHtml(sales)}
</section>
<section>
<h2>Keys</h2>
${keys ? keysHtml(keys) : KEYS_HINT}
</section>
<section>
<h2>Next</h2>
<ul class="list">
<li><code>docs/start.md</code><span>Sell your first 100 units.</span></li>
<li><code>docs/integrate.md</code><span>Connect your shop: pay links, webhooks, the client, CORS.</span></li>
<li><code>npm run webhooks:listen -- --test</code><span>Webhooks on this machine.</span></li>
<li><a href="/openapi.json">OpenAPI</a> and <a href="/asyncapi.json">AsyncAPI</a><span>For generators of clients.</span></li>
</ul>
</section>
</div>
</main>
<footer><span>Doorbuster ${escapeHtml(version)}</span><span>In production this page has no name, no version and no key.</span></footer>`;
}

const DOOR = `<svg viewBox="0 0 400 320" aria-hidden="true">
<path d="M14 256V144a186 186 0 0 1 372 0v112z"/><path d="M49 256V144a151 151 0 0 1 302 0v112z"/>
<path d="M81 256V144a119 119 0 0 1 238 0v112z"/><path d="M110 256V144a90 90 0 0 1 180 0v112z"/>
<path d="M136 256V144a64 64 0 0 1 128 0v112z"/><path d="M159 256V144a41 41 0 0 1 82 0v112z"/>
<path d="M159 256h82l78 64H81z"/>
<linearGradient id="spill" x1="0" y1="0" x2="0" y2="1"><stop stop-color="#fff2d0"/><stop offset="1" stop-color="#ff9f62"/></linearGradient>
</svg>`;

const doorTo = (path: string, title: string, text: string): string =>
  `<a class="go" href="${path}"><b>${title}</b><span>${escapeHtml(text)}</span><code>${path}</code></a>`;

/** The state of the engines as `/readyz` has it, and the workers. */
async function stateHtml({ readiness, workers, version }: LandingDeps, address: string): Promise<string> {
  const { ready, checks } = await readiness.run();
  const names = await workers().catch((error: unknown) => {
    if (error instanceof EngineUnavailable) return null;
    throw error;
  });
  const running = names === null ? 'Postgres cannot be asked' : `${names.length} running`;
  const { redis, postgres, journal } = checks;
  // Several shards have a journal each, and a check of their own.
  const behind = journal ? `; journal: ${journal.detail}` : '';
  return factsHtml([
    fact('API', ready, `${version}, ${ready ? 'ready' : 'not ready'}, ${address}`),
    ...(redis ? [fact('Redis', redis.ok, redis.detail)] : []),
    ...(postgres ? [fact('Postgres', postgres.ok && journal?.ok !== false, `${postgres.detail}${behind}`)] : []),
    fact('Worker', names !== null && names.length > 0, running),
  ]);
}

const fact = (name: string, ok: boolean, text: string) =>
  ({ name, html: escapeHtml(text), tone: ok ? 'good' : 'bad' }) as const;

/**
 * The first sale with a free unit that a shopper gets without a code; if there is none, the demo sale or the first
 * sale. Without Redis no sale counts as sold out.
 */
async function saleToOffer(
  sales: readonly StoredCampaign[],
  stock: LandingDeps['stock'],
): Promise<StoredCampaign | null> {
  const open = sales.filter(({ status, type, code }) => status === 'open' && type === 'shared' && code === null);
  for (const sale of open) if (await hasUnits(sale, stock)) return sale;
  return open.find(({ productId }) => productId === DEMO_PRODUCT) ?? open[0] ?? null;
}

async function hasUnits({ productId }: StoredCampaign, stock: LandingDeps['stock']): Promise<boolean> {
  try {
    const units = await stock(productId);
    return units !== null && (units.free === null || units.free > 0);
  } catch (error) {
    if (error instanceof EngineUnavailable) return true;
    throw error;
  }
}

/**
 * Commands that buy a unit of a sale. They can be pasted again: each time they are for another user. A response without
 * the expected field is printed and ends them.
 */
function sessionHtml({ productId }: StoredCampaign, keys: Keys | null, address: string): string {
  const secret = keys?.serviceKeys[0]?.secret;
  const lines = `api=${address} product=${quoted(productId)} user=shopper-$(date +%s)-$$
device=$(node -p 'crypto.randomUUID()') key=$(node -p 'crypto.randomUUID()')
service_key=${secret ? quoted(secret) : '"the service key"'}
${FIELD}

token=$(curl -s "$api/flash-sale/token?device_fp=$device") &&
attestation=$(echo "$token" | field attestation) && expires_at=$(echo "$token" | field expires_at) &&

checkout=$(curl -s "$api/flash-sale/checkout" -H 'Content-Type: application/json' -d '{
  "product_id": "'"$product"'", "user_id": "'"$user"'", "qty": 1, "device_fp": "'"$device"'",
  "attestation": "'"$attestation"'", "expires_at": '"$expires_at"',
  "idempotency_key": "'"$key"'" }') && reservation=$(echo "$checkout" | field reservation_id) && echo "$checkout" &&

curl -s "$api/flash-sale/confirm" -H "Authorization: Bearer $service_key" -H 'Content-Type: application/json' \\
  -d '{ "reservation_id": "'"$reservation"'", "payment_ref": "pay-'"$user"'" }' && echo`;
  return `<section>
<h2>Buy a unit from the terminal</h2>
${codeHtml('session', 'Paste it as it is: a token, a unit, and the payment that your shop reports', lines)}
</section>`;
}

/** Prints a field of the response's `data`. If it has none, as a problem document, prints the response and fails. */
const FIELD = `field() { node -e 'const text = fs.readFileSync(0, "utf8").trim(); let value
try { value = JSON.parse(text).data[process.argv[1]] } catch {}
if (value === undefined) { console.error("There is no " + process.argv[1] + " in " + (text || "the response")); process.exit(1) }
console.log(value)' "$1"; }`;

/** A text as one word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

const KEYS_HINT = `<p><code>npm start</code> printed the keys, and keeps them in <code>.data/secrets.json</code>
(<code>DATA_DIR</code>):</p>
<p><code>node -p "JSON.parse(fs.readFileSync('.data/secrets.json')).ADMIN_API_KEYS.split(':')[1]"</code></p>`;

function keysHtml({ adminKeys, serviceKeys }: Keys): string {
  const row = (id: string, title: string, use: string, secret = '') =>
    `<tr><th scope="row"><b>${title}</b><span>${use}</span></th><td><code id="${id}">${escapeHtml(secret)}</code></td><td>${copyButton(id, title)}</td></tr>`;
  return `<table><tbody>
${row('admin-key', 'Admin key', 'for the operator’s page', adminKeys[0]?.secret)}
${row('service-key', 'Service key', 'for the shop’s server', serviceKeys[0]?.secret)}
</tbody></table>
<p class="note">Only browsers on this machine see them, and only keys that <code>npm start</code> generated.</p>`;
}

/** Sales that are not closed, the newest first, those of load tests last; null = Postgres cannot be asked. */
async function readSales(campaigns: Pick<CampaignsTable, 'live'>): Promise<StoredCampaign[] | null> {
  try {
    const newest = (await campaigns.live()).reverse();
    const isOfLoadTest = ({ productId }: StoredCampaign) => OF_LOAD_TEST.test(productId);
    return [...newest.filter((sale) => !isOfLoadTest(sale)), ...newest.filter(isOfLoadTest)].slice(0, MAX_SALES);
  } catch (error) {
    if (error instanceof EngineUnavailable) return null;
    throw error;
  }
}

function salesHtml(sales: readonly StoredCampaign[] | null): string {
  if (sales === null) return '<p>The list cannot be read now; see <a href="/readyz">Health</a>.</p>';
  if (sales.length === 0) return '<p>There is none yet. Create one on the <a href="/admin">operator’s page</a>.</p>';
  const items = sales.map(
    ({ productId, name, status }) =>
      `<li><a href="/sale/${encodeURIComponent(productId)}">${escapeHtml(name)}</a> (${escapeHtml(status)})</li>`,
  );
  return `<ul class="list">${items.join('')}</ul>`;
}
