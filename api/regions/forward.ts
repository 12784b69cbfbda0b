import type { Request, Response } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { addressOf } from '../guards/caller/address.js';
import { readJson } from '../http/json-body.js';
import { sendText } from '../http/respond.js';
import type { Route } from '../http/route.js';
import type { Acknowledged } from './acknowledged.js';
import type { Owner, Owners } from './owners.js';
import { ARRIVAL_PATH, CLIENT_HEADER, EPOCH_HEADER } from './region.contract.js';
import { type LinkResponse, type RegionLink, RegionUnreachable } from './region-link.js';
import type { Regions } from './regions.js';
import { SUBJECTS, type Subject } from './subjects.js';

export type ForwardDeps = {
  regions: Regions;
  owners: Owners;
  tickets: Tickets;
  /** Whether Redis has a campaign for a product, which the directory may not have yet. */
  isHere: (product: string) => Promise<boolean>;
  acknowledged: Pick<Acknowledged, 'record'>;
  metrics: Metrics;
  log: Log;
};

const RETRY_SECONDS = 2;
/** Request headers of one connection, of its browser, or set here. A condition would lead to a 304 without a body. */
const NOT_FORWARDED = new Set([
  ...['connection', 'keep-alive', 'transfer-encoding', 'te', 'trailer', 'upgrade', 'expect', 'proxy-authorization'],
  ...['host', 'content-length', 'accept-encoding', 'cookie', 'origin', 'if-none-match', 'forwarded'],
]);
/** Response headers that clients may rely on. Those of the connection, of caches and of CORS are set here. */
const RETURNED = [
  ...['Retry-After', 'RateLimit', 'RateLimit-Policy', 'Location', 'ETag', 'Idempotent-Replayed'],
  ...['WWW-Authenticate', 'Doorbuster-As-Of'],
] as const;

/**
 * Wraps a route whose subject may belong to another region: that region decides, in one call. This region adds no
 * decision of its own, so that nothing is decided twice.
 */
export function forwarded(route: Route, deps: ForwardDeps): Route {
  const subjectOf = SUBJECTS[`${route.contract.method} ${route.contract.path}`];
  if (!subjectOf) return route;
  const { regions, tickets } = deps;
  return {
    ...route,
    contract: { ...route.contract, errors: [...route.contract.errors, 'region_unavailable'] },
    async handle(req, res) {
      if (route.contract.body) req.bodyRead = { value: await readJson(req) };
      const subject = subjectOf(req, req.bodyRead?.value, tickets);
      const owner = subject && (await ownerOf(subject, deps));
      if (owner === null || (owner.kind === 'region' && owner.region === regions.own)) {
        requireOwn(regions);
        await route.handle(req, res);
      } else if (owner.kind === 'unknown') {
        throw unreachable('not every region has been reached since the start', req, deps);
      } else {
        await forward(owner.region, req, res, deps);
      }
    },
  };
}

/**
 * A product that this region does not know is looked for in Redis as well before its requests go elsewhere: a campaign
 * that was created a moment ago must not be sold by another region under the same idempotency keys.
 */
async function ownerOf(subject: Subject, { regions, owners, isHere }: ForwardDeps): Promise<Owner> {
  const { directory, own } = regions;
  if (subject.kind !== 'product' || directory.hasOwn(subject.product) || !(await isHere(subject.product)))
    return owners.of(subject);
  await regions.readAgain();
  return directory.hasOwn(subject.product) ? owners.of(subject) : { kind: 'region', region: own };
}

/** @throws Problem 503 when this installation may not decide about its region */
export function requireOwn(regions: Regions): void {
  if (regions.refusal !== null)
    throw new Problem('temporarily_unavailable', 'This region is not in service here.', {
      retryAfterSeconds: RETRY_SECONDS,
    });
}

/**
 * @throws Problem 503 when the region cannot be reached. It may have decided nevertheless; a retry with the same key
 *   returns the decision
 */
async function forward(region: string, req: Request, res: Response, deps: ForwardDeps): Promise<void> {
  const { regions, acknowledged, metrics, log } = deps;
  const link = regions.linkTo(region);
  if (!link) throw unreachable(`region ${region} cannot be reached`, req, deps, region);
  let response: LinkResponse;
  try {
    response = await call(link, req, deps);
  } catch (error) {
    if (!(error instanceof RegionUnreachable)) throw error;
    throw unreachable(error.message, req, deps, region);
  }
  const epoch = Number(response.headers[EPOCH_HEADER] ?? 0);
  // An old owner has replied. It may not have learnt of the new one when it decided, so its response is not returned.
  if (epoch < regions.epochOf(region)) throw unreachable(`region ${region} has an old epoch`, req, deps, region);
  metrics.regionCalls.inc({ region, outcome: response.tries === 1 ? 'answered' : 'repeated' });
  log.info({ request_id: req.requestId, region, status: response.status, tries: response.tries }, 'forwarded');
  req.logged = true;
  send(req, res, response);
  acknowledged.record(region, epoch, req, response);
}

function call(link: RegionLink, req: Request, { regions }: ForwardDeps): Promise<LinkResponse> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(req.headers))
    if (typeof value === 'string' && !NOT_FORWARDED.has(name) && !/^(x-forwarded-|doorbuster-)/.test(name))
      headers[name] = value;
  Object.assign(headers, regions.headersTo(link.region), {
    [CLIENT_HEADER]: addressOf(req),
    'x-request-id': req.requestId,
  });
  const body = req.bodyRead === undefined ? null : JSON.stringify(req.bodyRead.value);
  const key = keyInBody(req);
  const headersOfRetry = key === null ? {} : { 'idempotency-key': key };
  return link.call({ method: req.method, path: `${ARRIVAL_PATH}${req.url}`, headers, headersOfRetry, body });
}

/**
 * The idempotency key of a request that has it in the body only; null = it has none there. A repeated request with such
 * a key gets 409; with the key in the header it gets the first response again, which this client has not got yet.
 */
function keyInBody(req: Request): string | null {
  const key = (req.bodyRead?.value as { idempotency_key?: unknown } | null | undefined)?.idempotency_key;
  const isInBody = typeof key === 'string' && req.headers['idempotency-key'] === undefined;
  return isInBody && /^[\x21-\x7e]+$/.test(key) ? key : null;
}

function send(req: Request, res: Response, { status, headers, text, tries }: LinkResponse): void {
  const fields = [
    ...['Content-Type', String(headers['content-type'] ?? 'application/json; charset=utf-8')],
    ...['Content-Length', String(Buffer.byteLength(text)), 'X-Request-Id', req.requestId],
  ];
  // For this client, the response to a repeated call is the first one.
  const isFirst = tries > 1 && keyInBody(req) !== null;
  for (const name of RETURNED) {
    const value = headers[name.toLowerCase()];
    if (value !== undefined && !(isFirst && name === 'Idempotent-Replayed')) fields.push(name, String(value));
  }
  sendText(res, status, fields, text);
}

function unreachable(reason: string, req: Request, { metrics, log }: ForwardDeps, region = 'unknown'): Problem {
  metrics.regionCalls.inc({ region, outcome: 'unreachable' });
  log.info({ request_id: req.requestId, region, reason }, 'not forwarded');
  req.logged = true;
  return new Problem('region_unavailable', 'Retry the request with the same idempotency key.', {
    retryAfterSeconds: RETRY_SECONDS,
  });
}
