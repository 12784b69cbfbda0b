import type { CampaignView, Connection, Standing } from '../../client/sale.js';
import { phaseAt, type SalePhase } from '../../shared/domain/phase.js';
import { type Door, type Mood, saleWords, type TimeText, unknownWords } from '../../shared/sale-page/sale-words.js';
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
  /** Milliseconds since the page last got the data of the sale; null = never. */
  lookedMs: number | null;
  /** Milliseconds since the page asked for them without a response; null = nothing is asked. */
  askedMs: number | null;
  /** How many users wait in line, for a shopper whose reservation ended; null = unknown. */
  waiting: number | null;
  /** When a frame said that the unit of this shopper is paid, and that the sale is paused; null = not seen here. */
  paidAtMs: number | null;
  pausedAtMs: number | null;
  /** Code of the error after which the client retries. */
  retry: string | null;
  connection: Connection | null;
  /** The first known position, to show the progress. */
  firstPlace: number;
  /** The page to pay is being opened. */
  forwarding: boolean;
  /** How the turn can be announced on this device, and whether it will be. */
  alert: { by: 'push' | 'sound'; on: boolean };
  /** Units of the attempt of this device; null = unknown. */
  units: number | null;
  /** What a press has done, until something else happens. */
  notice: string;
};

/** What a page knows when it opens. */
export const OPENED: PageState = {
  campaign: null,
  standing: null,
  holdsTicket: false,
  trying: false,
  refusal: null,
  quietMs: null,
  lookedMs: null,
  askedMs: null,
  waiting: null,
  paidAtMs: null,
  pausedAtMs: null,
  retry: null,
  connection: null,
  firstPlace: 1,
  forwarding: false,
  alert: { by: 'sound', on: false },
  units: null,
  notice: '',
};

/** What a button does. `check` requests the state at once; `alert` turns the announcement of the turn on or off. */
export type Action = 'buy' | 'leave' | 'release' | 'copy' | 'check' | 'alert';
/** The steps that the server renders. */
export type Step = 'buy' | 'wait' | 'pay';
export type View = {
  headline: string;
  /** The time that matters, in a line. */
  caption: string;
  detail: string;
  /** One or two words at the top of the panel. */
  status: string;
  mood: Mood;
  door: Door;
  /** The step of the shopper among those of the page; null = all are done. */
  step: Step | 'none' | null;
  title: string;
  button: { label: string; enabled: boolean } | null;
  /** The button of a state in which there is nothing to buy. `pressed`: null = it does not stay pressed. */
  other: { label: string; action: Action; pressed: boolean | null } | null;
  second: { label: string; action: Action } | null;
  /** The link to the page where the shopper pays, until a moment by the server's clock; null = to the paid order. */
  pay: { label: string; href: string; untilMs: number | null } | null;
  place: { position: number; note: string } | null;
  /** What is reserved, or how many wait: a number or an amount, and what it is. */
  reserved: { text: string; note: string } | null;
  /** Counts down to this moment by the server's clock. */
  clock: { label: string; untilMs: number } | null;
  /** Facts with their names, where there is neither a number nor a countdown. */
  rows: [name: string, value: string][];
  /** What is done of the line, or left of the time to pay, in percent. */
  bar: { percent: number; label: string } | null;
  order: string | null;
  /** Whether the sale has not begun, so that the page offers an entry for a calendar. */
  startsLater: boolean;
  /** Below the action, where there is no other button. */
  hint: string;
  /** How old the shown standing is. */
  updated: string;
  /** Whether nothing can be bought any more. */
  isOver: boolean;
  /** Whether it is known that no unit is free. */
  noneFree: boolean;
  trouble: string;
  connection: string;
};

/** After this time without news, the page no longer says that it is up to date. */
const QUIET_MS = 10_000;
/** How long a response with the data of the sale may take. Between its requests the page rests, which is no silence. */
const PATIENCE_MS = 4_000;

/** `price`: of one unit, as the server rendered it; null = unknown. `address`: of this page. */
type Words = {
  texts: Texts;
  time: TimeText;
  number: (value: number) => string;
  price: string | null;
  address: string;
};

/** What the page shows. It depends only on the state and the server's clock. */
export function viewOf(state: PageState, nowMs: number, words: Words): View {
  const { texts } = words;
  const view: View = {
    headline: texts.loading,
    caption: '',
    detail: '',
    status: '',
    mood: 'plain',
    door: 'open',
    step: 'buy',
    title: '',
    button: null,
    other: null,
    second: null,
    pay: null,
    place: null,
    reserved: null,
    clock: null,
    rows: [],
    bar: null,
    order: null,
    startsLater: false,
    hint: '',
    updated: '',
    isOver: false,
    noneFree: false,
    connection: '',
    trouble: troubleText(state, texts),
    ...(standingView(state, nowMs, words) ?? saleView(state, nowMs, words)),
  };
  const silentMs = mayChange(state, nowMs) ? silenceOf(state) : null;
  view.connection = connectionText(state, silentMs, texts) || state.notice;
  if (silentMs !== null || (state.connection === 'offline' && mayChange(state, nowMs)))
    showSilence(view, silentMs, texts);
  const isOver = view.mood === 'off' && !view.button?.enabled;
  view.isOver = isOver;
  if (view.step === 'buy' && (view.mood === 'off' || view.startsLater) && !isJoinable(view)) view.step = 'none';
  const shop = state.campaign?.branding?.shop_url;
  if (isOver && typeof shop === 'string') {
    view.pay ??= { label: texts.toShop, href: shop, untilMs: null };
    view.button = null;
    view.other = null;
  }
  const ageMs = silentMs === null ? ageOf(state) : null;
  if (ageMs !== null) view.updated = fill(texts.updated, { seconds: Math.floor(ageMs / 1000) });
  const { campaign, standing } = state;
  const isTaken = campaign?.sold_out === true || state.refusal === 'waiting_room_full';
  view.noneFree =
    standing?.status === 'queued' || (isTaken && campaign !== null && phaseOf(campaign, nowMs) === 'open');
  view.title ||= view.headline;
  const hasNumber = view.place || view.reserved || view.clock;
  if (!hasNumber && view.rows.length === 0) view.rows = factsOf(state, nowMs, words);
  return view;
}

/** The age of what is shown: of the standing that is followed, or of the data of the sale; null = nothing to say. */
function ageOf(state: PageState): number | null {
  const { standing, quietMs, lookedMs, trying } = state;
  if (quietMs !== null) return quietMs;
  // It is followed in a moment.
  const isFollowed = ['queued', 'promoted', 'completed'].includes(standing?.status ?? '');
  return isFollowed || trying ? null : lookedMs;
}

/**
 * The last known state is shown, but not as the present one. A button that can be pressed stays, because a press is
 * repeated until there is a response.
 * @param silentMs null = there is no connection
 */
function showSilence(view: View, silentMs: number | null, texts: Texts): void {
  const again = { label: texts.tryNow, action: 'check' } as const;
  view.status = texts.statusSilent;
  view.detail = '';
  if (view.place) view.place.note = texts.lastPlace;
  // The time to pay is known, and goes on.
  if (view.mood === 'turn') return;
  view.mood = 'warn';
  view.title = texts.statusSilent;
  view.caption = silentMs === null ? '' : fill(texts.noNews, { seconds: Math.floor(silentMs / 1000) });
  if (view.button?.enabled) view.second ??= again;
  else {
    view.button = null;
    if (!view.pay) view.other = { ...again, pressed: null };
  }
}

/** Whether the shopper can begin again. */
function isJoinable({ door, button }: View): boolean {
  return door === 'open' && button?.enabled === true;
}

/** When the sale opened and closed, as far as that is known. */
function factsOf({ campaign, standing }: PageState, nowMs: number, { texts, time }: Words): View['rows'] {
  if (standing?.order_id) return [[texts.order, standing.order_id]];
  if (!campaign || Date.parse(campaign.starts_at) > nowMs) return [];
  const rows: View['rows'] = [[texts.opened, time(campaign.starts_at)]];
  if (campaign.ends_at && Date.parse(campaign.ends_at) <= nowMs) rows.push([texts.closedAt, time(campaign.ends_at)]);
  return rows;
}

/** The view of a shopper without a place or unit. `trouble: ''` where the headline already names the refusal. */
function saleView(state: PageState, nowMs: number, words: Words): Partial<View> {
  const { campaign, refusal, retry } = state;
  const { texts, time } = words;
  if (state.trying) {
    const button = { label: texts.trying, enabled: false };
    if (retry === 'campaign_paused')
      return { ...saleWords('paused', SOON, texts, time, nowMs), ...pausedAt(state, words), button };
    return {
      ...endOf(state, words),
      status: texts.statusOpen,
      headline: texts.trying,
      detail: texts.tryingDetail,
      button,
    };
  }
  if (!campaign) return refusal === 'campaign_not_found' ? notFound(state, nowMs, words) : {};
  const phase = phaseOf(campaign, nowMs);
  // A refusal may be newer than the data of the campaign.
  if (refusal === 'campaign_ended') return { ...saleWords('ended', campaign, texts, time, nowMs), trouble: '' };
  const refused = phase === 'open' && refusal === 'sold_out';
  const sale = refused ? { ...campaign, sold_out: true } : campaign;
  const view: Partial<View> = saleWords(phase, sale, texts, time, nowMs);
  if (phase === 'not_started') {
    view.clock = { label: texts.opensIn, untilMs: Date.parse(campaign.starts_at) };
    view.startsLater = true;
  }
  if (phase === 'paused') {
    Object.assign(view, pausedAt(state, words));
    if (refusal === 'campaign_paused') view.trouble = '';
  }
  if (phase !== 'open') return view;
  if (refusal === 'waiting_room_full') return { ...view, ...endOf(state, words), ...fullLine(texts) };
  if (!refused && !campaign.sold_out) {
    if (refusal && view.button) view.button.label = texts.again;
    return { ...view, ...endOf(state, words) };
  }
  if (!campaign.has_line) return { ...view, trouble: '' };
  // No press can get a unit: the button only looks again.
  return { ...view, trouble: '', other: checkOf(texts) };
}

/** No unit is free, and the line takes no one now. */
function fullLine(texts: Texts): Partial<View> {
  return {
    ...{ headline: texts.lineFull, detail: texts.lineFullDetail, hint: '', title: texts.lineFull, trouble: '' },
    button: { label: texts.again, enabled: true },
  };
}

/** The countdown to the end of an open sale, if it has one. */
function endOf({ campaign }: PageState, { texts, time }: Words): Partial<View> {
  if (!campaign?.ends_at) return {};
  const clock = { label: texts.endsIn, untilMs: Date.parse(campaign.ends_at) };
  return { clock, caption: fill(texts.endsAt, { time: time(campaign.ends_at) }) };
}

/** What is said of a sale that does not exist. */
function notFound({ lookedMs }: PageState, nowMs: number, { texts, time, address }: Words): Partial<View> {
  const rows: View['rows'] = [[texts.address, address]];
  if (lookedMs !== null) rows.push([texts.checked, time(new Date(nowMs - lookedMs).toISOString(), false)]);
  return {
    ...unknownWords(texts),
    step: null,
    rows,
    other: checkOf(texts),
    trouble: '',
  };
}

/** When the sale was paused, if this page has seen it. */
function pausedAt({ pausedAtMs }: PageState, { texts, time }: Words): { caption: string } {
  const at = pausedAtMs === null ? null : time(new Date(pausedAtMs).toISOString());
  return { caption: at === null ? '' : fill(texts.pausedAt, { time: at }) };
}

/** A sale whose times do not matter for what is said of it. */
const SOON = { starts_at: '', ends_at: null, has_line: false, sold_out: false };

function standingView(state: PageState, nowMs: number, words: Words): Partial<View> | null {
  const { standing, campaign } = state;
  if (!standing || state.trying) return null;
  const { texts } = words;
  const phase = campaign && phaseOf(campaign, nowMs);
  const hasLine = campaign?.has_line !== false;
  const waiting = hasLine && phase === 'open' ? (state.waiting ?? 0) : 0;
  const othersWait = waiting > 0;
  const again = { label: hasLine ? texts.joinAgain : texts.again, enabled: true };
  const closed = { label: texts.statusClosed, enabled: false };
  const button = phase === 'open' ? again : phase === 'ended' ? closed : { label: texts.buy, enabled: false };
  const door = phase === 'open' ? 'open' : 'shut';
  const ended = { status: texts.statusEnded, mood: 'off', door, button } as const;
  switch (standing.status) {
    case 'not_queued':
      return null;
    case 'queued':
      return lineView(state, standing, phase === 'paused', nowMs, words);
    case 'promoted':
    case 'completed':
      return unitView(state, standing, nowMs, words);
    case 'redeemed':
      return paidView(state, standing, words);
    case 'released':
      return {
        ...{ ...ended, headline: texts.released },
        // Without anyone in line, it went back to the sale.
        detail: othersWait ? texts.releasedDetail : texts.releasedNoLine,
      };
    case 'expired':
      return {
        ...{ ...ended, status: texts.statusTimeUp, headline: texts.expired, order: standing.order_id },
        ...endedAt(standing, nowMs, words),
        detail: othersWait ? texts.expiredNext : hasLine ? texts.expiredDetail : texts.expiredNoLine,
        reserved: othersWait ? { text: words.number(waiting), note: texts.waitingNow } : null,
        hint: standing.order_id ? texts.paidAlready : '',
      };
    case 'left':
      return { ...ended, headline: texts.left, detail: texts.leftDetail };
    case 'closed': {
      const over = { ...ended, door: 'shut', button: closed } as const;
      if (phase === 'ended') return { ...over, headline: texts.closed, detail: texts.closedEnded };
      const other = checkOf(texts);
      const sold = campaign?.sold_out
        ? { headline: texts.soldOut, detail: texts.soldOutFinal }
        : { headline: texts.closed, detail: texts.closedDetail };
      return { ...over, ...sold, button: null, other };
    }
  }
}

function endedAt({ pay_before }: Standing, nowMs: number, { texts, time }: Words): Partial<View> {
  const isPast = pay_before !== null && Date.parse(pay_before) <= nowMs;
  return isPast ? { caption: fill(texts.endedAt, { time: time(pay_before) }) } : {};
}

function lineView(
  state: PageState,
  { position, queue_size: size, estimated_wait_seconds: wait }: Standing,
  paused: boolean,
  nowMs: number,
  words: Words,
): Partial<View> {
  const { firstPlace, holdsTicket, alert } = state;
  const { texts, time, number } = words;
  const note = paused ? texts.stillPlace : fill(texts.of, { size: number(size) });
  const percent = position ? Math.round((100 * (firstPlace - position)) / firstPlace) : 0;
  // The pace of the line means nothing during a pause.
  const around = wait === null ? '' : time(new Date(nowMs + wait * 1000).toISOString(), false);
  const minutes = Math.max(1, Math.round((wait ?? 0) / 60));
  const on = alert.by === 'push' ? [texts.notify, texts.notified] : [texts.turnOnSound, texts.soundIsOn];
  return {
    status: paused ? texts.statusPaused : texts.statusLine,
    mood: paused ? 'warn' : 'plain',
    door: paused ? 'ajar' : 'open',
    step: 'wait',
    headline: paused ? texts.paused : texts.inLine,
    caption: wait === null ? '' : fill(texts.wait, { minutes, time: around }),
    ...(paused ? pausedAt(state, words) : {}),
    detail: paused ? texts.pausedDetail : holdsTicket ? texts.inLineDetail : texts.otherDevice,
    title: fill(texts.moved, { position: position ?? '', size }),
    place: position ? { position, note } : null,
    bar: position ? { percent, label: texts.way } : null,
    other: { label: on[alert.on ? 1 : 0] as string, action: 'alert', pressed: alert.on },
    second: holdsTicket ? { label: texts.leave, action: 'leave' } : null,
  };
}

function unitView(state: PageState, standing: Standing, nowMs: number, words: Words): Partial<View> {
  const { texts, time } = words;
  const headline = standing.status === 'promoted' ? texts.yourTurn : texts.gotOne;
  const check = checkOf(texts);
  const reserved = { status: texts.statusReserved, headline, step: 'pay' } as const;
  if (!state.holdsTicket) return { ...reserved, mood: 'good', detail: texts.otherDevice, other: check };
  const copy = standing.order_id ? copyOf(texts) : check;
  const mine = { ...reserved, mood: 'turn', order: standing.order_id } as const;
  if (!standing.pay_before) {
    const rows = rowsOf(state, standing, words);
    return { ...mine, mood: 'good', step: null, detail: texts.nothingToPay, rows, other: copy };
  }
  const untilMs = Date.parse(standing.pay_before);
  if (nowMs >= untilMs)
    return { ...mine, status: texts.statusTimeUp, mood: 'plain', detail: texts.timeUp, other: check };
  const payable = {
    ...mine,
    caption: fill(texts.payBefore, { time: time(standing.pay_before) }),
    title: fill(texts.turnTitle, { time: time(standing.pay_before, false) }),
    bar: timeLeft(state, untilMs - nowMs, texts),
    second: { label: texts.giveBack, action: 'release' },
  } as const;
  const href = standing.checkout_url;
  if (!href) return { ...payable, detail: texts.payDetail, clock: { label: texts.timeLeft, untilMs }, other: copy };
  const losing = state.campaign?.has_line === false ? texts.payOrOthers : texts.payOrNext;
  return {
    ...payable,
    detail: state.forwarding ? texts.forwarding : losing,
    reserved: reservedOf(state, words),
    pay: { label: texts.payNow, href, untilMs },
  };
}

function paidView(state: PageState, standing: Standing, words: Words): Partial<View> {
  const { texts, time } = words;
  const href = state.campaign?.branding?.order_url;
  const paidAt = state.paidAtMs === null ? null : time(new Date(state.paidAtMs).toISOString());
  const pay = typeof href === 'string' ? { label: texts.viewOrder, href, untilMs: null } : null;
  const copy = standing.order_id ? copyOf(texts) : null;
  return {
    ...({
      status: texts.statusPaid,
      headline: texts.paid,
      caption: paidAt === null ? '' : fill(texts.paidAt, { time: paidAt }),
      detail: texts.paidDetail,
      title: texts.statusPaid,
      mood: 'good',
      step: null,
    } as const),
    rows: rowsOf(state, standing, words),
    order: standing.order_id,
    pay,
    other: pay ? null : copy,
    second: pay && copy ? { label: copy.label, action: 'copy' } : null,
  };
}

function checkOf(texts: Texts) {
  return { label: texts.checkAgain, action: 'check', pressed: null } as const;
}

function copyOf(texts: Texts) {
  return { label: texts.copyOrder, action: 'copy', pressed: null } as const;
}

/** The order, and one more fact that is known: the code, the amount or the units. */
function rowsOf({ units }: PageState, { order_id, code }: Standing, { texts, number, price }: Words): View['rows'] {
  const rows: View['rows'] = order_id ? [[texts.order, order_id]] : [];
  if (code) rows.push([texts.code, code]);
  else if (units === 1 && price) rows.push([texts.amount, price]);
  else if (units) rows.push([texts.units, number(units)]);
  return rows;
}

/** The amount to pay, or the unit. More than one unit may have been reduced, so their number is not known here. */
function reservedOf({ units, campaign }: PageState, { texts, number, price }: Words): View['reserved'] {
  if (units !== 1) return null;
  if (price && campaign) return { text: price, note: `${number(1)} × ${campaign.name}` };
  return { text: number(1), note: texts.unitReserved };
}

function timeLeft({ campaign }: PageState, leftMs: number, texts: Texts): View['bar'] {
  const seconds = campaign?.hold_seconds;
  return seconds ? { percent: Math.min(100, Math.ceil(leftMs / (10 * seconds))), label: texts.timeLeft } : null;
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

/** Whether the page shows something that may be different by now. What has ended is the same without a connection. */
function mayChange({ standing, campaign, trying, quietMs }: PageState, nowMs: number): boolean {
  if (quietMs !== null) return true;
  const hasEnded = standing !== null && standing.status !== 'not_queued';
  return !hasEnded && !trying && campaign !== null && phaseOf(campaign, nowMs) !== 'ended';
}

/**
 * How long the server has sent nothing although it should have; null = it has. A polling client hears at the server's
 * pace. Without a standing, the page has asked for the data of the sale.
 */
function silenceOf({ quietMs, lookedMs, askedMs, connection, standing }: PageState): number | null {
  if (quietMs === null)
    return lookedMs !== null && lookedMs >= QUIET_MS && (askedMs ?? 0) >= PATIENCE_MS ? lookedMs : null;
  const paceMs = connection === 'polling' ? 1_200 * (standing?.poll_after_seconds ?? 0) : 0;
  return quietMs >= QUIET_MS + paceMs ? quietMs : null;
}

/** It is the same for as long as it lasts, because a screen reader announces it. */
function connectionText({ connection, standing }: PageState, silentMs: number | null, texts: Texts): string {
  const waits = standing?.status === 'queued';
  if (connection === 'offline') {
    if (standing?.status === 'redeemed') return '';
    return waits ? texts.offline : texts.offlineNow;
  }
  if (silentMs !== null) return waits ? texts.silentInLine : texts.silent;
  // That all is well is said by the age of the news.
  return connection === 'polling' ? texts.polling : '';
}
