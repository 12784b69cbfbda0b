import { createHash } from 'node:crypto';
import type { Request } from 'express';
import { z } from 'zod';
import { standingData, standingFields } from '../../shared/contracts/standing.js';
import { campaignNoOf, type ProductId, type UserId } from '../../shared/domain/ids.js';
import { pollWhileOverloaded } from '../../shared/domain/polling.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import { standingOfPresent } from '../../shared/sale/standing-of-present.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import type { CodeTexts } from '../claim/code-texts.js';
import { checkoutUrlField, type PayLinks } from '../claim/pay-links.js';
import { assertProofFor, type Identity, type ShopperIdentity } from '../guards/auth/shopper-identity.js';
import { isFor, type Ticket, type Tickets } from '../guards/auth/ticket.js';
import { pollerOf } from '../guards/caller/address.js';
import type { Degradation } from '../guards/limits/degradation.js';
import type { Quota } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import { externalId, requestHeaders } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { validate } from '../http/validate.js';
import type { StandingSnapshots } from './standing-snapshots.js';

const query = z.object({ product_id: externalId, user_id: externalId });

const contract = {
  operationId: 'getQueueStatus',
  method: 'get',
  path: '/flash-sale/queue-status',
  summary: 'The standing of a shopper',
  description:
    'With the shopper’s ticket in `X-Ticket`, or with a proven identity, the response also has `reservation_id`, `order_id`, ' +
    '`pay_before` and `checkout_url`. One of the two is required with `SHOPPER_IDENTITY` `jwt` or `signed`.',
  tag: 'waiting room',
  caller: 'shopper',
  guards: ['poll_quota'],
  query,
  headers: z.object({ 'x-ticket': z.string().optional(), 'if-none-match': requestHeaders['if-none-match'] }),
  answers: {
    200: {
      description: 'The standing. Poll again after `poll_after_seconds`.',
      data: z.object(standingFields).meta({ id: 'QueueStatus' }),
      headers: ['ETag', 'RateLimit', 'RateLimit-Policy'],
    },
    304: {
      description: 'Nothing has changed since `If-None-Match`.',
      headers: ['ETag', 'RateLimit', 'RateLimit-Policy'],
    },
  },
  errors: [
    'invalid_request',
    'ticket_invalid',
    'unauthorized',
    'forbidden',
    'campaign_not_found',
    'temporarily_unavailable',
  ],
} satisfies RouteContract;

export type QueueStatusDeps = {
  sales: SalesOf;
  directory: CampaignDirectory;
  acknowledgements: Acknowledgements;
  tickets: Tickets;
  codeTexts: CodeTexts;
  payLinks: PayLinks;
  shopper: ShopperIdentity;
  quota: Quota;
  degradation: Pick<Degradation, 'isOff'>;
  snapshots: StandingSnapshots;
};

/** GET /flash-sale/queue-status. Its quota is per shopper and network, so that other users cannot exhaust it. */
export function queueStatusRoute(deps: QueueStatusDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req, res } = call;
    const { product_id, user_id } = validate(query, req.query);
    const product = product_id as ProductId;
    const user = user_id as UserId;
    const { ticket, identity } = await callerOf(deps, req, user);
    if (identity) assertProofFor(identity, product);
    const bucket = deps.sales.bucketOf(product, user);
    const sale = deps.sales.of(product, bucket);
    const isOverloaded = deps.degradation.isOff('status');
    // Who has shown to be the shopper always gets the standing of this moment.
    const mayBeKept = isOverloaded && ticket === null && identity?.proven !== true;
    // Anyone can poll for any user, which says nothing about whether the user is there.
    const isPresent = ticket === null ? identity?.proven === true : ticket.user === user;
    const place = ticket?.reservation ?? null;
    const [rateLimit, outcome] = await Promise.all([
      deps.quota.take(pollerOf(req)),
      mayBeKept
        ? deps.snapshots.of(sale, product, user)
        : isPresent
          ? standingOfPresent(sale, product, user, place)
          : sale.line.standing(product, user, place),
    ]);
    if (outcome.kind === 'not_found') throw call.refusal('campaign_not_found', 'No campaign sells this product.');
    if (ticket && (ticket.user !== user || (await deps.directory.productOf(ticket.campaignNo)) !== product)) {
      throw call.refusal('forbidden', 'The ticket belongs to another user or campaign.');
    }
    // This response acknowledges a unit or a place, as the response of the checkout does.
    const acknowledges = outcome.status !== 'not_queued';
    if (acknowledges && (outcome.durable || !deps.acknowledgements.isImmediate))
      await deps.acknowledgements.held(product, { durable: outcome.durable, journalId: '' }, bucket);
    const isHolder = ticket ? isFor(ticket, outcome.reservationId) : identity?.proven === true;
    const data = standingData(outcome, isHolder);
    // Who must be seen polls as often as ever, and who has a unit to pay too.
    const maySlowDown = outcome.presenceMs === 0 && outcome.status !== 'promoted' && outcome.status !== 'completed';
    if (isOverloaded && maySlowDown)
      data.poll_after_seconds = pollWhileOverloaded(data.poll_after_seconds, outcome.position);
    if (isHolder) Object.assign(data, checkoutUrlField(deps.payLinks.ofStanding(product, user, outcome)));
    if (isHolder && outcome.code !== null)
      data.code = await deps.codeTexts.textOf(campaignNoOf(outcome.reservationId), outcome.code);
    const json = call.encode(200, data);
    const etag = `"${createHash('sha1').update(json).digest('base64url')}"`;
    const headers = [...rateLimit, 'ETag', etag];
    if (req.headers['if-none-match']?.split(/,\s*/).includes(etag)) {
      call.begin(304, [
        ...API_HEADERS,
        'Cache-Control',
        'no-store',
        ...headers,
        'X-Request-Id',
        req.requestId,
        ...req.cors,
      ]);
      res.end();
      return;
    }
    call.replyEncoded(200, json, headers);
  });
}

/**
 * Returns the ticket, or without one the proven identity. If shoppers have to prove their identity, an invalid ticket
 * is ignored.
 * @throws Problem 401 if neither is valid and one is required
 */
async function callerOf(
  { tickets, shopper }: QueueStatusDeps,
  req: Request,
  user: UserId,
): Promise<{ ticket: Ticket | null; identity: Identity | null }> {
  try {
    const ticket = tickets.of(req);
    return { ticket, identity: ticket ? null : await shopper.identify(req, user) };
  } catch (error) {
    if (!shopper.proves || !(error instanceof Problem) || error.code !== 'ticket_invalid') throw error;
    return { ticket: null, identity: await shopper.identify(req, user) };
  }
}
