import type { CampaignView, Connection, Standing } from '../../client/sale.js';
import { phaseAt, type SalePhase } from '../../shared/domain/phase.js';
import { type Door, type Mood, saleWords } from '../../shared/sale-page/sale-words.js';
import { fill, problemText, type Texts } from '../../shared/sale-page/texts.js';

/** Everything that the page depends on. */
export type PageState = {
  campaign: CampaignView | null;
  standing: Standing | null;
  /** Whether this device has the ticket, so that the shopper can pay, leave the line and give back a unit here. */
  holdsTicket: boolean;
  trying: boolean;
  /** Code of the last refusal, until something else happens. */
  refusal: string | null;
  /** Milliseconds since the server last sent the standing; null = nothing is followed. */
  quietMs: number | null;
  /** Code of the error after which the client retries. */
  retry: string | null;
  connection: Connection | null;
  /** The first known position, to show the progress. */
  firstPlace: number;
  /** The page to pay is being opened. */
  forwarding: boolean;
};

export type Action = 'buy' | 'leave' | 'release';
/** The steps that the server renders. */
export type Step = 'buy' | 'wait' | 'pay';
export type View = {
  headline: string;
  detail: string;
  /** One or two words at the top of the panel. */
  status: string;
  mood: Mood;
  door: Door;
  /** The step of the shopper among those of the page; null = all are done. */
  step: Step | 'none' | null;
  title: string;
  button: { label: string; enabled: boolean } | null;
  second: { label: string; action: Action } | null;
  /** The link to the page where the shopper pays, until a moment by the server's clock; null = to the paid order. */
  pay: { label: string; href: string; untilMs: number | null } | null;
  place: { position: number; size: number; percent: number } | null;
  /** Counts down to this moment by the server's clock. */
  clock: { label: string; untilMs: number } | null;
  order: { label: string; text: string } | null;
  /** Whether the sale has not begun, so that the page offers an entry for a calendar. */
  startsLater: boolean;
  /** How old the shown standing is. */
  updated: string;
  trouble: string;
  connection: string;
};

/** After this time without news, the page no longer says that it is up to date. */
const QUIET_MS = 10_000;

type Words = { texts: Texts; time: (iso: string) => string };

/** What the page shows. It depends only on the state and the server's clock. */
export function viewOf(state: PageState, nowMs: number, words: Words): View {
  const { texts } = words;
  const view: View = {
    headline: texts.loading,
    detail: '',
    status: '',
    mood: 'plain',
    door: 'open',
    step: 'buy',
    title: '',
    button: null,
    second: null,
    pay: null,
    place: null,
    clock: null,
    order: null,
    startsLater: false,
    updated: '',
    trouble: troubleText(state, texts),
    connection: connectionText(state, texts),
    ...(standingView(state, nowMs, words) ?? saleView(state, nowMs, words)),
  };
  const { quietMs } = state;
  // What has ended is the same without a connection.
  if (isSilent(state) || (state.connection === 'offline' && quietMs !== null)) {
    view.status = texts.statusSilent;
    if (view.mood !== 'turn') view.mood = 'warn';
  }
  const isOver = view.mood === 'off' && view.button === null;
  if (view.step === 'buy' && (isOver || view.startsLater)) view.step = 'none';
  const shop = state.campaign?.branding?.shop_url;
  if (isOver && typeof shop === 'string') view.pay ??= { label: texts.toShop, href: shop, untilMs: null };
  if (quietMs !== null && !isSilent(state)) view.updated = fill(texts.updated, { seconds: Math.floor(quietMs / 1000) });
  view.title ||= view.headline;
  return view;
}

/** The view of a shopper without a place or unit. `trouble: ''` where the headline already names the refusal. */
function saleView(state: PageState, nowMs: number, words: Words): Partial<View> {
  const { campaign, refusal, retry } = state;
  const { texts, time } = words;
  if (state.trying) {
    const button = { label: texts.trying, enabled: false };
    if (retry === 'campaign_paused') return { ...saleWords('paused', SOON, texts, time), button };
    return { status: texts.statusOpen, headline: texts.trying, detail: texts.tryingDetail, button };
  }
  if (!campaign) return refusal === 'campaign_not_found' ? notFound(texts) : {};
  const phase = phaseOf(campaign, nowMs);
  // A refusal may be newer than the data of the campaign.
  if (refusal === 'campaign_ended') return { ...saleWords('ended', campaign, texts, time), trouble: '' };
  const refused = phase === 'open' && refusal === 'sold_out';
  const view: Partial<View> = saleWords(phase, refused ? { ...campaign, sold_out: true } : campaign, texts, time);
  if (phase === 'not_started') {
    view.clock = { label: texts.opensIn, untilMs: Date.parse(campaign.starts_at) };
    view.startsLater = true;
  }
  if (phase === 'paused' && refusal === 'campaign_paused') view.trouble = '';
  if (phase !== 'open') return view;
  if (!refused && !campaign.sold_out) {
    if (campaign.ends_at) view.clock = { label: texts.endsIn, untilMs: Date.parse(campaign.ends_at) };
    if (refusal && view.button) view.button.label = texts.again;
    return view;
  }
  const final = campaign.has_line && campaign.sold_out;
  return { ...view, trouble: '', second: final ? null : { label: texts.again, action: 'buy' } };
}

/** What is said of a sale that does not exist. */
function notFound(texts: Texts): Partial<View> {
  const look = { status: texts.statusUnknown, mood: 'off', door: 'shut', step: null } as const;
  return { ...look, headline: texts.problems.campaign_not_found, trouble: '' };
}

/** A sale whose times do not matter for what is said of it. */
const SOON = { starts_at: '', ends_at: null, has_line: false, sold_out: false };

function standingView(state: PageState, nowMs: number, words: Words): Partial<View> | null {
  const { standing, campaign } = state;
  if (!standing || state.trying) return null;
  const { texts } = words;
  const phase = campaign && phaseOf(campaign, nowMs);
  const hasLine = campaign?.has_line !== false;
  const again = phase === 'open' ? { label: texts.again, enabled: true } : null;
  const ended = { status: texts.statusEnded, mood: 'off', door: again ? 'open' : 'shut' } as const;
  switch (standing.status) {
    case 'not_queued':
      return null;
    case 'queued':
      return lineView(state, standing, phase === 'paused', texts);
    case 'promoted':
    case 'completed':
      return unitView(state, standing, nowMs, words);
    case 'redeemed':
      return {
        ...({
          status: texts.statusPaid,
          headline: texts.paid,
          detail: texts.paidDetail,
          mood: 'good',
          step: null,
        } as const),
        order: orderOf(standing, texts.order),
        pay: paidOrder(campaign, texts),
      };
    case 'released':
      return {
        ...ended,
        headline: texts.released,
        detail: hasLine ? texts.releasedDetail : texts.releasedNoLine,
        button: again,
      };
    case 'expired':
      return {
        ...{ ...ended, status: texts.statusTimeUp, headline: texts.expired, button: again },
        detail: hasLine ? texts.expiredDetail : texts.expiredNoLine,
      };
    case 'left':
      return { ...ended, headline: texts.left, detail: texts.leftDetail, button: again };
    case 'closed':
      if (phase === 'ended') return { ...ended, headline: texts.closed, detail: texts.closedEnded };
      if (campaign?.sold_out) return { ...ended, headline: texts.soldOut, detail: texts.soldOutFinal };
      return { ...ended, headline: texts.closed, detail: texts.closedDetail };
  }
}

function lineView(
  { firstPlace, holdsTicket }: PageState,
  { position, queue_size: size, estimated_wait_seconds: wait }: Standing,
  paused: boolean,
  texts: Texts,
): Partial<View> {
  const place = position ? { position, size, percent: Math.round((100 * (firstPlace - position)) / firstPlace) } : null;
  // The pace of the line means nothing during a pause.
  const waiting = wait === null ? '' : ` ${fill(texts.wait, { minutes: Math.max(1, Math.round(wait / 60)) })}`;
  const detail = paused ? texts.inLinePaused : holdsTicket ? texts.inLineDetail + waiting : texts.otherDevice;
  return {
    status: paused ? texts.statusPaused : texts.statusLine,
    mood: paused ? 'warn' : 'plain',
    door: paused ? 'ajar' : 'open',
    step: 'wait',
    headline: texts.inLine,
    detail,
    title: fill(texts.moved, { position: position ?? '', size }),
    place,
    second: holdsTicket ? { label: texts.leave, action: 'leave' } : null,
  };
}

function unitView(
  { holdsTicket, forwarding }: PageState,
  standing: Standing,
  nowMs: number,
  words: Words,
): Partial<View> {
  const { texts, time } = words;
  const headline = standing.status === 'promoted' ? texts.yourTurn : texts.gotOne;
  const reserved = { status: texts.statusReserved, headline, step: 'pay' } as const;
  if (!holdsTicket) return { ...reserved, mood: 'good', detail: texts.otherDevice };
  const label = standing.code ? `${texts.order}, ${texts.code}` : texts.order;
  const mine = { ...reserved, mood: 'turn', order: orderOf(standing, label) } as const;
  if (!standing.pay_before) return { ...mine, mood: 'good', step: null, detail: texts.nothingToPay };
  const untilMs = Date.parse(standing.pay_before);
  if (nowMs >= untilMs) return { ...mine, status: texts.statusTimeUp, mood: 'plain', detail: texts.timeUp };
  const href = standing.checkout_url;
  if (href) {
    const detail = forwarding ? texts.forwarding : fill(texts.payHere, { time: time(standing.pay_before) });
    const pay = { label: texts.payNow, href, untilMs };
    return { ...mine, detail, pay, second: { label: texts.giveBack, action: 'release' } };
  }
  return {
    ...mine,
    detail: `${texts.payDetail} ${fill(texts.payBefore, { time: time(standing.pay_before) })}`,
    clock: { label: texts.timeLeft, untilMs },
    second: { label: texts.giveBack, action: 'release' },
  };
}

/** The link to the order in the shop, on the device of the shopper who has paid. */
function paidOrder(campaign: CampaignView | null, texts: Texts): View['pay'] {
  const href = campaign?.branding?.order_url;
  return typeof href === 'string' ? { label: texts.viewOrder, href, untilMs: null } : null;
}

function orderOf({ order_id, code }: Standing, label: string): View['order'] {
  const text = [order_id, code].filter(Boolean).join(' · ');
  return text ? { label, text } : null;
}

/** The phase of the sale now. The clock opens and ends a sale between two responses. */
function phaseOf({ status, starts_at, ends_at }: CampaignView, nowMs: number): SalePhase {
  const [startsAtMs, endsAtMs] = [Date.parse(starts_at), ends_at === null ? null : Date.parse(ends_at)];
  return phaseAt({ status: status === 'ended' ? 'closed' : status, startsAtMs, endsAtMs }, nowMs);
}

function troubleText({ refusal, retry }: PageState, texts: Texts): string {
  if (refusal) return problemText(refusal, texts);
  // Does not count seconds, because a screen reader would announce each of them.
  return retry && retry !== 'campaign_paused' ? texts.retry : '';
}

/** Whether the server has sent nothing for longer than it should. A polling client hears at the server's pace. */
function isSilent({ quietMs, connection, standing }: PageState): boolean {
  const paceMs = connection === 'polling' ? 1_200 * (standing?.poll_after_seconds ?? 0) : 0;
  return quietMs !== null && quietMs >= QUIET_MS + paceMs;
}

function connectionText(state: PageState, texts: Texts): string {
  const { connection, quietMs } = state;
  if (connection === null || connection === 'offline' || !isSilent(state))
    // That all is well is said by the age of the news.
    return connection === null || connection === 'live' ? '' : texts[quietMs === null ? 'offlineNow' : connection];
  // Changes every five seconds only, because a screen reader announces it.
  return fill(texts.silent, { seconds: 5 * Math.floor((quietMs ?? 0) / 5_000) });
}
