import type { CampaignView, Connection, Standing } from '../../client/sale.js';
import { phaseAt, type SalePhase } from '../../shared/domain/phase.js';
import { fill, type Texts } from './texts.js';

/** Everything that the page depends on. */
export type PageState = {
  campaign: CampaignView | null;
  standing: Standing | null;
  /** Whether this device has the ticket, so that the shopper can pay, leave the line and give back a unit here. */
  holdsTicket: boolean;
  trying: boolean;
  /** Code of the last refusal, until something else happens. */
  refusal: string | null;
  /** Code of the error after which the client retries. */
  retry: string | null;
  connection: Connection | null;
  /** The first known position, to show the progress. */
  firstPlace: number;
};

export type Action = 'buy' | 'leave' | 'release';
export type View = {
  headline: string;
  detail: string;
  mood: 'plain' | 'good';
  title: string;
  button: { label: string; enabled: boolean } | null;
  second: { label: string; action: Action } | null;
  place: { position: number; size: number; percent: number } | null;
  /** Counts down to this moment by the server's clock. */
  clock: { label: string; untilMs: number } | null;
  order: { label: string; text: string } | null;
  trouble: string;
  connection: string;
};

type Words = { texts: Texts; time: (iso: string) => string };

/** What the page shows. It depends only on the state and the server's clock. */
export function viewOf(state: PageState, nowMs: number, words: Words): View {
  const { texts } = words;
  const view: View = {
    headline: texts.loading,
    detail: '',
    mood: 'plain',
    title: '',
    button: null,
    second: null,
    place: null,
    clock: null,
    order: null,
    trouble: '',
    connection: connectionText(state, texts),
    ...(standingView(state, nowMs, words) ?? saleView(state, nowMs, words)),
  };
  if (state.refusal) view.trouble = problemText(state.refusal, texts);
  // Does not count seconds, because a screen reader would announce each of them.
  else if (state.retry && state.retry !== 'campaign_paused') view.trouble = texts.retry;
  view.title ||= view.headline;
  return view;
}

/** The view of a shopper without a place or unit. */
function saleView({ campaign, trying, refusal, retry }: PageState, nowMs: number, words: Words): Partial<View> {
  const { texts, time } = words;
  if (trying) {
    const button = { label: texts.trying, enabled: false };
    if (retry === 'campaign_paused') return { headline: texts.paused, detail: texts.pausedDetail, button };
    return { headline: texts.trying, detail: texts.tryingDetail, button };
  }
  if (!campaign) return refusal === 'campaign_not_found' ? { headline: texts.problems.campaign_not_found } : {};
  const phase = phaseOf(campaign, nowMs);
  if (phase === 'ended' || refusal === 'campaign_ended') return { headline: texts.ended, detail: texts.endedDetail };
  if (phase === 'not_started') {
    const clock = { label: texts.opensIn, untilMs: Date.parse(campaign.starts_at) };
    const detail = fill(texts.opensAt, { time: time(campaign.starts_at) });
    return { headline: texts.notYet, detail, clock, button: { label: texts.buy, enabled: false } };
  }
  if (phase === 'paused')
    return { headline: texts.paused, detail: texts.pausedDetail, button: { label: texts.buy, enabled: false } };
  if (refusal === 'sold_out')
    return { headline: texts.soldOut, detail: texts.soldOutDetail, button: { label: texts.again, enabled: true } };
  const detail = campaign.ends_at
    ? `${texts.openDetail} ${fill(texts.endsAt, { time: time(campaign.ends_at) })}`
    : texts.openDetail;
  return { headline: texts.open, detail, button: { label: refusal ? texts.again : texts.buy, enabled: true } };
}

function standingView(state: PageState, nowMs: number, { texts, time }: Words): Partial<View> | null {
  const { standing, campaign, firstPlace, holdsTicket } = state;
  if (!standing || state.trying) return null;
  const mayAgain = campaign !== null && phaseOf(campaign, nowMs) === 'open';
  const again = mayAgain ? { label: texts.again, enabled: true } : null;
  switch (standing.status) {
    case 'not_queued':
      return null;
    case 'queued': {
      const { position, queue_size: size, estimated_wait_seconds: wait } = standing;
      const moved = fill(texts.moved, { position: position ?? '', size });
      const place = position
        ? { position, size, percent: Math.round((100 * (firstPlace - position + 1)) / firstPlace) }
        : null;
      const waiting = wait === null ? '' : ` ${fill(texts.wait, { minutes: Math.max(1, Math.round(wait / 60)) })}`;
      return {
        headline: texts.inLine,
        detail: holdsTicket ? texts.inLineDetail + waiting : texts.otherDevice,
        title: moved,
        place,
        second: holdsTicket ? { label: texts.leave, action: 'leave' } : null,
      };
    }
    case 'promoted':
    case 'completed': {
      const headline = standing.status === 'promoted' ? texts.yourTurn : texts.gotOne;
      if (!holdsTicket) return { headline, mood: 'good', detail: texts.otherDevice };
      const text = [standing.order_id, standing.code].filter(Boolean).join(' · ');
      const order = text ? { label: standing.code ? `${texts.order}, ${texts.code}` : texts.order, text } : null;
      const mine = { headline, mood: 'good', order } as const;
      if (!standing.pay_before) return { ...mine, detail: texts.nothingToPay };
      const untilMs = Date.parse(standing.pay_before);
      if (nowMs >= untilMs) return { ...mine, mood: 'plain', detail: texts.timeUp };
      return {
        ...mine,
        detail: `${texts.payDetail} ${fill(texts.payBefore, { time: time(standing.pay_before) })}`,
        clock: { label: texts.timeLeft, untilMs },
        second: { label: texts.giveBack, action: 'release' },
      };
    }
    case 'redeemed': {
      const text = [standing.order_id, standing.code].filter(Boolean).join(' · ');
      return {
        headline: texts.paid,
        detail: texts.paidDetail,
        mood: 'good',
        order: text ? { label: texts.order, text } : null,
      };
    }
    case 'released':
      return { headline: texts.released, detail: texts.releasedDetail, button: again };
    case 'expired':
      return { headline: texts.expired, detail: texts.expiredDetail, button: again };
    case 'left':
      return { headline: texts.left, detail: texts.leftDetail, button: again };
    case 'closed':
      return { headline: texts.closed, detail: texts.closedDetail };
  }
}

/** The phase of the sale now. The clock opens and ends a sale between two responses. */
function phaseOf({ status, starts_at, ends_at }: CampaignView, nowMs: number): SalePhase {
  const [startsAtMs, endsAtMs] = [Date.parse(starts_at), ends_at === null ? null : Date.parse(ends_at)];
  return phaseAt({ status: status === 'ended' ? 'closed' : status, startsAtMs, endsAtMs }, nowMs);
}

export function problemText(code: string, texts: Texts): string {
  const { problems } = texts;
  return Object.hasOwn(problems, code) ? problems[code as keyof Texts['problems']] : problems.other;
}

function connectionText({ connection }: PageState, texts: Texts): string {
  return connection === null ? '' : texts[connection];
}

/** Formats a duration as `01:02:03` or `02:03`. Seconds are rounded up, so that zero is shown only at the end. */
export function countdownText(leftMs: number): string {
  const seconds = Math.max(0, Math.ceil(leftMs / 1000));
  const days = Math.floor(seconds / 86_400);
  const parts = [Math.floor((seconds % 86_400) / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  const shown = days > 0 || parts[0] ? parts : parts.slice(1);
  const clock = shown.map((part) => String(part).padStart(2, '0')).join(':');
  return days > 0 ? `${days} × 24:00 + ${clock}` : clock;
}
