import { count, time } from './words.js';

/** A webhook endpoint of GET /admin/webhooks. */
export type Endpoint = {
  id: string;
  url: string;
  types: string[] | null;
  campaigns: string[] | null;
  secrets?: string[];
  enabled: boolean;
  disabled_reason: string | null;
  created_at: string;
  deliveries: {
    backlog: number;
    parked: number;
    replays: number;
    last_delivered_at: string | null;
    failed_attempts: number;
    failing_since: string | null;
    next_attempt_at: string | null;
    last_error: string | null;
  };
};

/** One attempt to deliver an event. */
export type Attempt = {
  event_id: string;
  type: string;
  subject: string;
  attempted_at: string;
  delivered: boolean;
  status: number | null;
  error: string | null;
  duration_ms: number;
};

/** The state of an endpoint in a word. */
export function stateOfEndpoint({ enabled, deliveries }: Endpoint): { word: string; tone: 'good' | 'warn' | 'bad' } {
  if (!enabled) return { word: 'Disabled', tone: 'bad' };
  if (deliveries.failing_since !== null || deliveries.failed_attempts > 0) return { word: 'Failing', tone: 'bad' };
  if (deliveries.parked > 0) return { word: 'Some events parked', tone: 'warn' };
  return { word: 'Working', tone: 'good' };
}

/** What an operator should know about an endpoint that does not get every event; empty = nothing. */
export function troublesOf({ enabled, disabled_reason, deliveries }: Endpoint): string[] {
  const { parked, failing_since, next_attempt_at, last_error, backlog } = deliveries;
  const parkedText = `${count(parked)} ${parked === 1 ? 'event waits' : 'events wait'} apart, because an event of their reservation fails.`;
  return [
    enabled ? '' : `It is disabled: ${disabled_reason ?? 'by an operator'}. ${count(backlog)} events wait for it.`,
    failing_since === null ? '' : `It fails since ${time(failing_since)}.`,
    parked > 0 ? parkedText : '',
    last_error === null ? '' : `Last error: ${last_error}.`,
    enabled && next_attempt_at !== null ? `The next attempt is at ${time(next_attempt_at)}.` : '',
  ].filter(Boolean);
}

/** The result of an attempt or a test. */
export function resultText({
  delivered,
  status,
  error,
  duration_ms,
}: Pick<Attempt, 'delivered' | 'status' | 'error' | 'duration_ms'>): string {
  const reply = status === null ? 'no response' : `status ${status}`;
  return `${delivered ? 'Delivered' : 'Not delivered'}: ${reply} after ${count(duration_ms)} ms${error ? ` (${error})` : ''}`;
}

/** A type of event without the part that all have. */
export const shortType = (type: string): string => type.replace(/^dev\.doorbuster\./, '').replace(/\.v\d+$/, '');
