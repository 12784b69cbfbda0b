import { phaseAt, type SalePhase } from '../../shared/domain/phase.js';
import type { CampaignNow, LineNow, Overview } from './overview.js';

/** The texts of the page. All functions are pure. */

const whole = new Intl.NumberFormat('en-GB');
const precise = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** Formats a number; null = no limit. */
export const count = (value: number | null): string => (value === null ? '∞' : whole.format(value));
export const rate = (value: number): string => (value >= 100 ? whole.format(Math.round(value)) : precise.format(value));

export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${precise.format(value)} s`;
  return duration(value * 1000);
}

/** Formats a duration: `4 min 10 s`, `2 h 5 min`, `3 d 1 h`. */
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

/** Formats a time in the operator's time zone. */
export function time(iso: string): string {
  return new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(iso));
}

/** Formats a time with its weekday on the clocks of a time zone. */
export function timeIn(iso: string, zone: string): string {
  return new Intl.DateTimeFormat('en-GB', {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZone: zone,
    timeZoneName: 'short',
  }).format(new Date(iso));
}

const STATES: Record<SalePhase, { word: string; tone: string }> = {
  draft: { word: 'Draft', tone: 'off' },
  not_started: { word: 'Scheduled', tone: 'plain' },
  open: { word: 'Open', tone: 'good' },
  paused: { word: 'Paused', tone: 'warn' },
  ended: { word: 'Ended', tone: 'off' },
};

/** The state of a campaign now, by the service's clock. */
export function stateOf({ status, starts_at, ends_at }: CampaignNow, now: string): { word: string; tone: string } {
  if (status === 'closed') return { word: 'Closed', tone: 'off' };
  const [startsAtMs, endsAtMs] = [Date.parse(starts_at), ends_at === null ? null : Date.parse(ends_at)];
  return STATES[phaseAt({ status, startsAtMs, endsAtMs }, Date.parse(now))];
}

/** Who paused a campaign, when and why; null = the campaign is not paused. */
export function pauseOf({ status, pause }: CampaignNow): string | null {
  if (status !== 'paused' || pause === null) return null;
  const who = pause.by === 'velocity' ? 'automatically' : `by ${pause.by}`;
  return `Paused ${who} at ${time(pause.at)}${pause.reason ? `: ${pause.reason}.` : '.'} Resume it when the reason no longer applies.`;
}

/** Explains to an operator why no user is promoted. */
export function reasonText({ reason, free, head, waiting }: LineNow): string {
  const first = head[0];
  switch (reason) {
    case 'no_line':
      return 'This campaign has no waiting room: users are refused while no unit is free.';
    case 'nobody_waits':
      return 'No user is waiting.';
    case 'draft':
      return 'The campaign is a draft. Users are promoted after it is published.';
    case 'not_started':
      return 'The sale has not started. Users are promoted after it starts.';
    case 'paused':
      return 'The campaign is paused. Places stay. Returned units go to waiting users after it is resumed.';
    case 'ended':
      return `The sale is over. ${waiting === 1 ? 'The waiting user is' : 'Waiting users are'} no longer promoted.`;
    case 'nothing_free':
      return 'No unit is free. The next returned unit goes to the first user in line.';
    case 'head_wants_more':
      return `The first user in line wants ${count(first?.qty ?? 0)} units and only ${count(free)} ${free === 1 ? 'is' : 'are'} free. After 30 seconds the users behind are served.`;
    case 'codes_used_up':
      return 'Units are free, but every code is used. Generate or import more codes.';
    case 'nobody_there':
      return 'Units are free, but no waiting user was seen recently. Users who return are served, and so are new users.';
    case 'handing_over':
      return 'Free units are being assigned to the first users in line.';
    default:
      return `The service reports: ${reason}.`;
  }
}

const BACKLOG_WORRIES_SECONDS = 10;

/** The most important problem for the person on call; "" = none. */
export function worryOf(now: Overview): string {
  const { workers, queues, journal_backlog, oldest_unpersisted_seconds, switched_off } = now;
  if (workers.length === 0)
    return `No worker is alive: ${count(journal_backlog)} entries wait in the journal, and overdue units are not returned. Start a worker.`;
  if (oldest_unpersisted_seconds > BACKLOG_WORRIES_SECONDS)
    return `Postgres is ${seconds(oldest_unpersisted_seconds)} behind, with ${count(journal_backlog)} entries in the journal. The sale goes on; ${whyBehind(queues.persist?.reason ?? null)}`;
  if (switched_off?.length)
    return `An API or Redis is near its limit: ${switched_off.map((what) => OFF[what] ?? what).join(', ')}. Checkouts go on. Start more APIs, or look at Redis.`;
  return '';
}

/** What an overloaded process does not do, in words. */
const OFF: Record<string, string> = {
  positions: 'positions are sent every ten seconds',
  status: 'shoppers poll less often',
  validate: 'codes are not validated',
};

const whyBehind = (reason: string | null): string =>
  reason === null ? 'check the worker and Postgres.' : `the last attempt failed: ${reason}`;

export type Readiness = { checks: Record<string, { ok: boolean; detail: string }> };

/** Describes an outage by the results of the readiness checks. */
export function outageText(readiness: Readiness | null): string {
  const bad = Object.entries(readiness?.checks ?? {}).filter(([, { ok }]) => !ok);
  if (bad.length === 0) return 'The service is not available at the moment. Trying again…';
  return `The service is not available at the moment: ${bad.map(([name, { detail }]) => `${name} ${detail}`).join('; ')}. Trying again…`;
}

/** The parts of the stock in percent, for a bar; null = the stock is unlimited. */
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
