import { localTime, momentOf, type WindowEdge } from '../../shared/calendar/sale-window.js';
import type { CampaignTerms } from '../../shared/domain/campaign.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { NewCampaign, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { AmendBody, CampaignBody, CampaignData, rules as ruleFields } from './campaign.contract.js';

/** Between what an operator sends and sees, and the campaign as the project has it. */

/** @param now decides whether it is open at once or scheduled */
export function newCampaign(body: CampaignBody, now: Date): NewCampaign {
  const zone = body.time_zone;
  const startsAt = body.starts_at === undefined ? now : moment(body.starts_at, zone, 'start');
  const terms = {
    name: body.name ?? body.product_id,
    startsAt,
    endsAt: body.ends_at === null ? null : moment(body.ends_at, zone, 'end'),
    timeZone: zone,
    discount: body.discount,
    holdSeconds: body.hold_seconds,
    perUserLimit: body.per_user_limit,
    maxQty: body.max_qty,
    waitingRoom: roomOf(body.waiting_room),
    confirmation: body.confirmation,
    latePayment: body.late_payment,
    refundPolicy: body.refund_policy,
    requireAttestation: body.require_attestation,
  };
  checkWindow(terms);
  const { require_token, risk, audience, stacking, uniform_refusals, limits } = body;
  return {
    ...terms,
    productId: body.product_id as ProductId,
    type: body.type,
    code: body.code,
    totalLimit: body.total_limit,
    status: body.draft ? 'draft' : startsAt > now ? 'scheduled' : 'open',
    rules: { require_token, risk, audience, stacking, uniform_refusals, limits },
  };
}

/**
 * A local time is one of the time zone that the campaign has afterwards. A change of the time zone alone moves nothing: the
 * sale begins and ends when it would have, and is told on another clock.
 * @throws Problem 400 or 409 when the change is not possible in the campaign's state
 */
export function amendedTerms(
  current: StoredCampaign,
  body: AmendBody,
): { terms: CampaignTerms; rules: Record<string, unknown> } {
  const zone = body.time_zone ?? current.timeZone;
  const startsAt = body.starts_at === undefined ? current.startsAt : moment(body.starts_at, zone, 'start');
  const begun = current.status !== 'draft' && current.status !== 'scheduled';
  if (begun && startsAt.getTime() !== current.startsAt.getTime()) throw conflict('#/starts_at', 'the sale has started');
  if (body.per_user_limit !== undefined && body.per_user_limit < current.perUserLimit && current.status !== 'draft') {
    throw limitOnlyRaised();
  }
  const terms: CampaignTerms = {
    name: body.name ?? current.name,
    startsAt,
    endsAt: amendedEnd(current.endsAt, body.ends_at, zone),
    timeZone: zone,
    discount: body.discount === undefined ? current.discount : body.discount,
    holdSeconds: body.hold_seconds ?? current.holdSeconds,
    perUserLimit: body.per_user_limit ?? current.perUserLimit,
    maxQty: body.max_qty ?? current.maxQty,
    waitingRoom: body.waiting_room ? roomOf(body.waiting_room) : current.waitingRoom,
    confirmation: body.confirmation ?? current.confirmation,
    latePayment: body.late_payment ?? current.latePayment,
    refundPolicy: body.refund_policy ?? current.refundPolicy,
    requireAttestation: body.require_attestation ?? current.requireAttestation,
  };
  checkWindow(terms);
  const { require_token, risk, audience, stacking, uniform_refusals, limits } = body;
  const changed = Object.entries({ require_token, risk, audience, stacking, uniform_refusals, limits });
  return {
    terms,
    rules: { ...current.rules, ...Object.fromEntries(changed.filter(([, value]) => value !== undefined)) },
  };
}

/** The campaign as operators see it. */
export function campaignView(campaign: StoredCampaign): CampaignData {
  // Taken by `rules` of the contract when they were stored.
  const rules = campaign.rules as Pick<CampaignData, keyof typeof ruleFields>;
  return {
    id: campaign.id,
    product_id: campaign.productId,
    name: campaign.name,
    type: campaign.type,
    code: campaign.code,
    total_limit: campaign.totalLimit,
    per_user_limit: campaign.perUserLimit,
    max_qty: campaign.maxQty,
    starts_at: campaign.startsAt.toISOString(),
    starts_at_local: localTime(campaign.startsAt, campaign.timeZone),
    ends_at: campaign.endsAt?.toISOString() ?? null,
    ends_at_local: campaign.endsAt && localTime(campaign.endsAt, campaign.timeZone),
    time_zone: campaign.timeZone,
    discount: campaign.discount,
    hold_seconds: campaign.holdSeconds,
    waiting_room: {
      enabled: campaign.waitingRoom.enabled,
      max_size: campaign.waitingRoom.maxSize,
      presence_seconds: campaign.waitingRoom.presenceSeconds,
    },
    confirmation: campaign.confirmation,
    late_payment: campaign.latePayment,
    refund_policy: campaign.refundPolicy,
    require_attestation: campaign.requireAttestation,
    ...rules,
    buckets: 1,
    status: campaign.status,
    version: campaign.termsVersion,
    created_at: campaign.createdAt.toISOString(),
    updated_at: campaign.updatedAt.toISOString(),
  };
}

function roomOf(room: { enabled: boolean; max_size: number; presence_seconds: number | null }) {
  return { enabled: room.enabled, maxSize: room.max_size, presenceSeconds: room.presence_seconds };
}

function amendedEnd(current: Date | null, given: string | null | undefined, zone: string): Date | null {
  if (given === undefined) return current;
  return given === null ? null : moment(given, zone, 'end');
}

function moment(text: string, zone: string, edge: WindowEdge): Date {
  const found = momentOf(text, zone, edge);
  if (found) return found;
  throw invalid(`#/${edge}s_at`, 'must be from 1970-01-01 to 9998-12-31');
}

function checkWindow(terms: CampaignTerms): void {
  if (terms.endsAt && terms.endsAt <= terms.startsAt) throw invalid('#/ends_at', 'must be later than starts_at');
}

function invalid(pointer: string, detail: string): Problem {
  return new Problem('invalid_request', 'Some fields are not valid; see `errors`.', {
    members: { errors: [{ pointer, detail }] },
  });
}

/** Whether it is still a draft is decided by Redis (lua/amend.lua). */
export function limitOnlyRaised(): Problem {
  return conflict('#/per_user_limit', 'it can only be raised: some users may have used it');
}

function conflict(pointer: string, detail: string): Problem {
  return new Problem('campaign_conflict', 'The change is not possible now.', {
    members: { errors: [{ pointer, detail }] },
  });
}
