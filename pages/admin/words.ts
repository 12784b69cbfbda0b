import { phaseAt, type SalePhase } from '../../shared/domain/phase.js';
import type { CampaignNow, LineNow, Overview } from './overview.js';

/** Everything the page says in words. Functions of their arguments alone. */

const whole = new Intl.NumberFormat('en-GB');
const precise = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** null = there is no limit. */
export const count = (value: number | null): string => (value === null ? '∞' : whole.format(value));
export const rate = (value: number): string => (value >= 100 ? whole.format(Math.round(value)) : precise.format(value));

export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${precise.format(value)} s`;
  return duration(value * 1000);
}

/** `4 min 10 s`, `2 h 5 min`, `3 d 1 h`. */
export function duration(ms: number): string {
  const total = Math.max(0, Math.round(ms / 1000));
  const units: [number, string][] = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const first = units.findIndex(([size]) => total >= size);
  if (first < 0) return '0 s';
  let rest = total;
  const parts: string[] = [];
  for (const [size, name] of units.slice(first, first + 2)) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)} ${name}`);
    rest %= size;
  }
  return parts.join(' ');
}

/** On the operator's own clock and zone. */
export function time(iso: string): string {
  return new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(iso));
}

const STATES: Record<SalePhase, { word: string; tone: string }> = {
  draft: { word: 'Draft', tone: 'off' },
  not_started: { word: 'Scheduled', tone: 'plain' },
  open: { word: 'Open', tone: 'good' },
  paused: { word: 'Paused', tone: 'warn' },
  ended: { word: 'Ended', tone: 'off' },
};

/** What a campaign does at this moment, by the service's clock. */
export function stateOf({ status, starts_at, ends_at }: CampaignNow, now: string): { word: string; tone: string } {
  if (status === 'closed') return { word: 'Closed', tone: 'off' };
  const [startsAtMs, endsAtMs] = [Date.parse(starts_at), ends_at === null ? null : Date.parse(ends_at)];
  return STATES[phaseAt({ status, startsAtMs, endsAtMs }, Date.parse(now))];
}

/** Who has paused a campaign, when and why; null = it is not paused. */
export function pauseOf({ status, pause }: CampaignNow): string | null {
  if (status !== 'paused' || pause === null) return null;
  const who = pause.by === 'velocity' ? 'automatically' : `by ${pause.by}`;
  return `Paused ${who} at ${time(pause.at)}${pause.reason ? `: ${pause.reason}.` : '.'} Resume it when that is in order.`;
}

/** Why no user is promoted, for the person who is asked "why does the line not move". */
export function reasonText({ reason, free, head, waiting }: LineNow): string {
  const first = head[0];
  switch (reason) {
    case 'no_line':
      return 'This campaign has no waiting room: a user who finds nothing free is refused.';
    case 'nobody_waits':
      return 'No user is waiting.';
    case 'draft':
      return 'The campaign is a draft. Users are promoted after it is published.';
    case 'not_started':
      return 'The sale has not started. Users are promoted after it starts.';
    case 'paused':
      return 'The campaign is paused. Places stay; units that come back are handed out when it is resumed.';
    case 'ended':
      return `The sale is over. ${waiting === 1 ? 'The one who waits is' : 'Those who wait are'} not promoted any more.`;
    case 'nothing_free':
      return 'Nothing is free. The next unit that comes back goes to the first in line.';
    case 'head_wants_more':
      return `The first in line wants ${count(first?.qty ?? 0)} and only ${count(free)} ${free === 1 ? 'is' : 'are'} free. After 30 seconds the users behind are served.`;
    case 'codes_used_up':
      return 'Units are free, but every code is used. Generate or import more codes.';
    case 'nobody_there':
      return 'Units are free, but no waiting user was seen lately. A user who comes back is served; so are new users.';
    case 'handing_over':
      return 'Nothing is in the way: free units are on their way to the first in line.';
    default:
      return `The service says: ${reason}.`;
  }
}

const BACKLOG_WORRIES_SECONDS = 10;

/** What the person on call should know first; "" = all is well. */
export function worryOf({ relay, journal_backlog, oldest_unpersisted_seconds }: Overview): string {
  if (relay === null)
    return `No worker writes to Postgres: ${count(journal_backlog)} entries wait in the journal, and overdue units are not returned. Start a worker.`;
  if (oldest_unpersisted_seconds > BACKLOG_WORRIES_SECONDS)
    return `Postgres is ${seconds(oldest_unpersisted_seconds)} behind, with ${count(journal_backlog)} entries in the journal. The sale goes on; look at the worker and at Postgres.`;
  return '';
}

export type Readiness = { checks: Record<string, { ok: boolean; detail: string }> };

/** Why the service says that it cannot answer now. */
export function outageText(readiness: Readiness | null): string {
  const bad = Object.entries(readiness?.checks ?? {}).filter(([, { ok }]) => !ok);
  if (bad.length === 0) return 'The service cannot answer at the moment. Trying again…';
  return `The service cannot answer at the moment: ${bad.map(([name, { detail }]) => `${name} ${detail}`).join('; ')}. Trying again…`;
}

/** Parts of the stock in hundredths, for a bar; null when there is no total to compare with. */
export function sharesOf({ total, free, held, redeemed, burned }: CampaignNow): Record<string, number> | null {
  if (total === null || free === null || total === 0) return null;
  return Object.fromEntries(
    Object.entries({ redeemed, held, burned, free }).map(([part, units]) => [part, (units / total) * 100]),
  );
}

export function stockText({ total, free, held, redeemed, burned }: CampaignNow): string {
  if (total === null) return `No limit; ${count(held)} held, ${count(redeemed)} redeemed`;
  return `${count(redeemed)} redeemed, ${count(held)} held, ${count(burned)} burned and ${count(free)} free of ${count(total)}`;
}
