import { z } from 'zod';
import { CAMPAIGN_STATUSES } from '../../shared/domain/campaign.js';
import { CAMPAIGN_SORTS, type CampaignFilter } from '../../shared/postgres/campaign-list.js';
import { note } from '../http/fields.js';

/** Postgres numbers campaigns with four bytes. */
const MAX_CURSOR = 2_147_483_647;

/** Query parameters of the lists of campaigns. */
export const listFields = {
  q: note.min(1, 'must not be empty').optional().describe('part of the name or product id, or a code'),
  status: z.enum(CAMPAIGN_STATUSES).optional(),
  hidden: z.enum(['true', 'false']).default('false').describe('true: the hidden campaigns instead'),
  sort: z.enum(CAMPAIGN_SORTS).default('newest').describe('`live`: open, paused, scheduled, drafts, closed'),
};
export const listCursor = z.coerce.number().int().min(1).max(MAX_CURSOR).optional();

type ListFields = {
  q?: string | undefined;
  status?: CampaignFilter['status'] | undefined;
  hidden: string;
  sort: CampaignFilter['sort'];
};

export function filterOf({ q, status, hidden, sort }: ListFields): CampaignFilter {
  return { text: q ?? null, status: status ?? null, hidden: hidden === 'true', sort };
}

/** The address of the next page, with the same filter. */
export function nextPage(path: string, query: ListFields & { limit: number }, cursor: number): string {
  const given = new URLSearchParams({ limit: String(query.limit) });
  for (const name of ['q', 'status'] as const) if (query[name]) given.set(name, query[name]);
  if (query.hidden === 'true') given.set('hidden', 'true');
  if (query.sort !== 'newest') given.set('sort', query.sort);
  given.set('cursor', String(cursor));
  return `${path}?${given}`;
}
