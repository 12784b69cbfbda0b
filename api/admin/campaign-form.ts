import { localTime, momentOf, type WindowEdge } from '../../shared/calendar/sale-window.js';
import { storedExtendSeconds } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { type CampaignTerms, givenTerms, storedTerms, termsOf } from '../../shared/domain/terms.js';
import { storedOpeningMinutes, storedVelocity, type VelocityMode } from '../../shared/domain/velocity.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { NewCampaign, StoredCampaign } from '../../shared/postgres/campaigns.js';
import { invalidFields } from '../http/validate.js';
import {
  type AmendBody,
  absentHoldProblem,
  type CampaignBody,
  type CampaignData,
  NO_PRESENCE,
  ONE_UNIT,
  rules as ruleFields,
} from './campaign.contract.js';

type RuleName = keyof typeof ruleFields;
const RULE_NAMES = Object.keys(ruleFields) as RuleName[];

/** Between what an operator sends and sees, and the campaign as the project has it. */

/** @param now decides whether it is open at once or scheduled */
export function newCampaign(body: CampaignBody, now: Date): NewCampaign {
  const zone = body.time_zone;
  const startsAt = body.starts_at === undefined ? now : moment(body.starts_at, zone, 'start');
  const terms = termsOf({
    ...body,
    name: body.name ?? body.product_id,
    starts_at: startsAt,
    ends_at: body.ends_at === null ? null : moment(body.ends_at, zone, 'end'),
  });
  checkWindow(terms);
  return {
    ...terms,
    productId: body.product_id as ProductId,
    type: body.type,
    code: body.code,
    totalLimit: body.total_limit,
    status: body.draft ? 'draft' : startsAt > now ? 'scheduled' : 'open',
    buckets: body.buckets,
    rules: {
      ...givenRules({ ...body, velocity: body.velocity ?? defaultVelocity(body) }),
      ...(body.regions && { regions: body.regions }),
    },
  };
}

/** The rules among the fields that an operator sent. */
function givenRules(body: Partial<Record<RuleName, unknown>>): Record<string, unknown> {
  return Object.fromEntries(RULE_NAMES.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])));
}

/** A leaked coupon is gone in seconds. A line keeps its order in a crowd, and without a limit nothing is used up. */
function defaultVelocity({ type, code, total_limit, waiting_room }: CampaignBody): VelocityMode {
  const isCoupon = type !== 'shared' || code !== null;
  return isCoupon && total_limit !== null && !waiting_room.enabled ? 'pause' : 'alert';
}

/**
 * Returns the terms and rules after a change. Local times are in the time zone after the change. A change of the time
 * zone alone moves nothing: the sale begins and ends at the same moments, which are shown in the new time zone.
 * @throws Problem 400 or 409 if the status of the campaign forbids the change
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
  const endsAt = amendedEnd(current.endsAt, body.ends_at, zone);
  const terms = { ...current, ...givenTerms({ ...body, starts_at: startsAt, ends_at: endsAt }) };
  checkWindow(terms);
  if (current.buckets > 1 && terms.maxQty > 1) throw invalidFields({ pointer: '#/max_qty', detail: ONE_UNIT });
  if (current.buckets > 1 && terms.waitingRoom.presenceSeconds !== null)
    throw invalidFields({ pointer: '#/waiting_room/presence_seconds', detail: NO_PRESENCE });
  const { absentHoldSeconds, presenceSeconds } = terms.waitingRoom;
  const problem = absentHoldProblem(absentHoldSeconds, presenceSeconds, terms.holdSeconds);
  if (problem) throw invalidFields({ pointer: '#/waiting_room/absent_hold_seconds', detail: problem });
  return { terms, rules: { ...current.rules, ...givenRules(body) } };
}

/** The campaign as operators see it. */
export function campaignView(campaign: StoredCampaign): CampaignData {
  // Taken by `rules` of the contract when they were stored.
  const rules = campaign.rules as Pick<CampaignData, RuleName | 'regions'>;
  const { starts_at, ends_at, ...terms } = storedTerms(campaign);
  return {
    id: campaign.id,
    product_id: campaign.productId,
    type: campaign.type,
    code: campaign.code,
    total_limit: campaign.totalLimit,
    ...terms,
    starts_at: starts_at.toISOString(),
    starts_at_local: localTime(starts_at, campaign.timeZone),
    ends_at: ends_at?.toISOString() ?? null,
    ends_at_local: ends_at && localTime(ends_at, campaign.timeZone),
    ...rules,
    extend_seconds: storedExtendSeconds(campaign.rules.extend_seconds, campaign.holdSeconds),
    velocity: storedVelocity(campaign.rules.velocity),
    opening_minutes: storedOpeningMinutes(campaign.rules.opening_minutes),
    buckets: campaign.buckets,
    status: campaign.status,
    hidden: campaign.hidden,
    version: campaign.termsVersion,
    created_at: campaign.createdAt.toISOString(),
    updated_at: campaign.updatedAt.toISOString(),
  };
}

function amendedEnd(current: Date | null, given: string | null | undefined, zone: string): Date | null {
  if (given === undefined) return current;
  return given === null ? null : moment(given, zone, 'end');
}

function moment(text: string, zone: string, edge: WindowEdge): Date {
  const found = momentOf(text, zone, edge);
  if (found) return found;
  throw invalidFields({ pointer: `#/${edge}s_at`, detail: 'must be from 1970-01-01 to 9998-12-31' });
}

function checkWindow(terms: CampaignTerms): void {
  if (terms.endsAt && terms.endsAt <= terms.startsAt)
    throw invalidFields({ pointer: '#/ends_at', detail: 'must be later than starts_at' });
}

/** Whether it is still a draft is decided by Redis (lua/update_terms.lua). */
export function limitOnlyRaised(): Problem {
  return conflict('#/per_user_limit', 'it can only be raised: some users may have used it');
}

function conflict(pointer: string, detail: string): Problem {
  return new Problem('campaign_conflict', 'The change is not possible now.', {
    members: { errors: [{ pointer, detail }] },
  });
}
