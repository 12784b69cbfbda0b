import { TabStore } from '../../client/attempt.js';
import { Refusal, Sale, type Standing } from '../../client/sale.js';
import { fill } from '../../shared/sale-page/texts.js';
import { solveChallenge } from './challenge.js';
import { Notifications } from './notifications.js';
import { language, numberText, page, texts, timeText, zoneText } from './page-data.js';
import { namedUser, remembered } from './remembered.js';
import { ignoreSecondClicks } from './second-click.js';
import { Signals } from './signals.js';
import { element, showView, write } from './stage.js';
import { OPENED, type PageState, type View, viewOf } from './view.js';
import { continueLink, readVisitor } from './visitor.js';

const TICK_MS = 250;
/** How often the page requests the sale while it follows no standing; spread by a quarter in both directions. */
const LOOK_EVERY_MS = 20_000;
/** The same while a unit may be had, so that its data are as new as those of a shopper in line, or no response came. */
const LOOK_OFTEN_MS = 8_000;
const LOOK_SOON_MS = 2_000;
const TRIES_WHILE_TAKEN_BACK = 5;
/** The device token is requested within this time before the start, which saves a call at the start. */
const PREPARE_MS = 15_000;
/** The page requests the sale once between this time and twice this time before the start. */
const CHECK_MS = 5_000;
/** How often a screen reader announces the place at most. The first places are announced at once. */
const SPEAK_EVERY_MS = 10_000;
const NEAR_PLACE = 3;
/** Remaining seconds that are announced. */
const SPOKEN_SECONDS = [60, 30, 10];

const productId = decodeURIComponent(location.pathname.split('/')[2] ?? '');
/** "" = what is in the address cannot be an id. */
const saleId = String(element('reference-id').textContent);
const visitor = readVisitor(productId);
const address = new URL(location.href);
const words = {
  texts,
  time: (iso: string, zone?: boolean) => timeText(iso, sale.now(), zone),
  number: numberText,
  price: document.querySelector('.price')?.textContent ?? null,
  address: location.pathname,
};
const signals = new Signals();

const state: PageState = { ...OPENED };
/** Pages to pay that were opened, so that a return to this page does not open them again. */
const forwarded = new Set([remembered.getItem('doorbuster|forwarded')]);
let prepareAtMs = 0;
let checkAtMs = 0;
let lookSoon = 0;
let isWelcome = false;
let lookedAtMs = 0;
/** When the page asked first after the last response; 0 = nothing is asked. */
let askedAtMs = 0;
let refusedAtMs = 0;
let checkedEndMs = 0;
let spokenAt = 0;
let shown: View | null = null;
let spokenSeconds = Number.POSITIVE_INFINITY;

const userId = visitor?.userId ?? namedUser();
const sale = new Sale({
  productId,
  userId,
  store: new TabStore(remembered),
  onChallenge: solveChallenge,
  ...visitor?.proof,
});
const notifications = new Notifications(sale);
const sound = element('sound') as HTMLInputElement;
sale.on('change', onChange);
sale.on('queued', () => notifications.placed().catch(notNotified));
sale.on('connection', (connection) => {
  // The first frame of a socket has what may have happened before.
  isWelcome = true;
  queueMicrotask(() => {
    isWelcome = false;
  });
  state.pausedAtMs = null;
  // The sale may have been paused while there was no socket.
  if (connection === 'live') {
    lookAtSale();
    lookSoonAgain();
  }
  show();
});
sale.on('paused', () => {
  state.pausedAtMs = sale.now();
  setStatus('paused');
});
sale.on('redeemed', (_, before) => {
  // The client has closed its socket by now.
  const isNew = before?.pay_before && state.connection === 'live' && !isWelcome;
  state.paidAtMs = isNew ? sale.now() : null;
});
sale.on('resumed', () => setStatus('open'));
sale.on('closed', () => lookAtSale());
sale.on('retry', ({ code }) => {
  state.retry = code;
  show();
});
sale.on('lost', (code) => {
  state.standing = null;
  state.refusal = code;
  show();
});

setUp();
// Until the first response, the page shows what the server rendered: this device's clock may be wrong.
await Promise.race([lookAtSale(), goOn()]);
show();
setInterval(show, TICK_MS);
lookAgainLater();

function setUp(): void {
  sound.checked = remembered.getItem('doorbuster|sound') !== 'off';
  sound.addEventListener('change', () => turnSound(sound.checked));
  chooseLanguage();
  ignoreSecondClicks(element('stage'));
  element('act').addEventListener('click', () => {
    if (element('act').getAttribute('aria-disabled') !== 'true') buy();
  });
  for (const id of ['second', 'other']) element(id).addEventListener('click', () => press(id as 'second' | 'other'));
  element('continue').addEventListener('click', shareLink);
  write('install', texts.notifyInstall);
  // The server knows the time zone of the campaign alone. A sale that does not exist has no times.
  if (element('zone').textContent !== '') write('zone', fill(texts.zone, { zone: zoneText() }));
  addEventListener('online', comeBack);
  addEventListener('offline', show);
  addEventListener('pageshow', (event) => event.persisted && comeBack());
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState !== 'visible') return;
    // Browsers hold the requests of hidden pages.
    askedAtMs = 0;
    comeBack();
  });
  // Another tab has got a ticket for a place or a unit.
  addEventListener('storage', ({ key, newValue }) => {
    if (key === `doorbuster|${productId}|${sale.options.userId}` && newValue?.includes('"ticket"')) goOn();
  });
}

/** The page in another language keeps the other parameters of its address. */
function chooseLanguage(): void {
  const choice = element('language') as HTMLSelectElement;
  // Browsers keep a choice over a reload.
  choice.value = language;
  choice.addEventListener('change', () => {
    const there = new URL(address);
    there.searchParams.set('lang', choice.value);
    there.hash = '';
    location.assign(there.href);
  });
}

async function buy(): Promise<void> {
  signals.unlock();
  await during(async () => {
    for (let tries = 1; ; tries += 1) {
      try {
        await sale.attempt();
        return;
      } catch (error) {
        if (!isTakenBackSoon(error) || tries === TRIES_WHILE_TAKEN_BACK) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    }
  });
}

/** The time to pay is over, but the server has yet to take back the unit, which counts until then. */
function isTakenBackSoon(error: unknown): boolean {
  return error instanceof Refusal && error.code === 'already_redeemed' && state.standing?.status === 'expired';
}

async function goOn(): Promise<void> {
  try {
    if (visitor?.transfer) await sale.adopt(visitor.transfer);
    await sale.resume();
  } catch (error) {
    refuse(error);
  }
  show();
}

/** What the buttons do that the view offers besides buying. */
function press(id: 'second' | 'other'): void {
  const action = shown?.[id]?.action;
  if (action === 'leave' || action === 'release') giveUp();
  if (action === 'copy') copyOrder();
  if (action === 'alert') turnAlert();
  if (action === 'check') check();
}

function check(): void {
  if (state.campaign === null) location.reload();
  comeBack();
}

async function copyOrder(): Promise<void> {
  const order = state.standing?.order_id ?? '';
  try {
    await navigator.clipboard.writeText(order);
    notice(texts.orderCopied);
  } catch {
    // The browser does not allow it: then the number is shown to copy.
    prompt(texts.copyOrder, order);
  }
}

function turnAlert(): void {
  const { by, on } = state.alert;
  if (by === 'push')
    notifications.turn(!on).then(() => notice(notifications.blocked ? texts.notifyBlocked : ''), notNotified);
  else turnSound(!on);
  show();
}

function turnSound(on: boolean): void {
  sound.checked = on;
  remembered.setItem('doorbuster|sound', on ? 'on' : 'off');
  if (on) signals.unlock();
  show();
}

/** Shows what a press has done, until the state changes. */
function notice(text: string): void {
  state.notice = text;
  show();
}

async function giveUp(): Promise<void> {
  const leaving = state.standing?.status === 'queued';
  const giveBackSure = state.campaign?.has_line === false ? texts.giveBackSureNoLine : texts.giveBackSure;
  if (!confirm(leaving ? texts.leaveSure : giveBackSure)) return;
  try {
    await (leaving ? sale.leave() : sale.release());
  } catch (error) {
    refuse(error);
    sale.wake();
  }
  show();
}

/** Gives the shopper the link for another device: by the share menu of a phone, else by the clipboard. */
async function shareLink(): Promise<void> {
  const { transfer } = sale;
  if (!transfer) return;
  const url = continueLink(location.href, sale.options.userId, transfer);
  try {
    if (navigator.share) await navigator.share({ url });
    else await navigator.clipboard.writeText(url);
    notice(texts.linkCopied);
  } catch {
    // The shopper closed the menu, or the browser does not allow it: then the link is shown to copy.
    if (!navigator.share) prompt(texts.continueElsewhere, url);
  }
}

/** The browser could not subscribe, or the server refused: the page works without. */
function notNotified(error: unknown): void {
  notifications.failed = true;
  notice(texts.notifyFailed);
  console.warn(String(error));
}

/** Web Push, where it works on this device; else sound, which browsers allow only after a press on this page. */
function alertOf(): PageState['alert'] {
  if (notifications.possible && !notifications.blocked && state.holdsTicket)
    return { by: 'push', on: notifications.on && !notifications.failed };
  return { by: 'sound', on: sound.checked && signals.ready };
}

/** Whether the shopper can still take a place in line. */
function mayJoin(): boolean {
  const { campaign } = state;
  return !isFollowed(state.standing) && campaign?.has_line === true && campaign.status !== 'ended';
}

async function during(work: () => Promise<void>): Promise<void> {
  state.trying = true;
  state.notice = '';
  state.refusal = null;
  show();
  try {
    await work();
  } catch (error) {
    refuse(error);
    lookAtSale();
  } finally {
    state.trying = false;
    state.retry = null;
    show();
    // Where the headline names the refusal, there is no alert.
    if (state.refusal && !shown?.trouble) speakView();
  }
}

function refuse(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
  state.refusal = error.code;
  refusedAtMs = sale.now();
}

function comeBack(): void {
  sale.wake();
  lookAtSale();
  show();
}

/** @param fresh whether the cache of the browser is passed over */
async function lookAtSale(fresh = false): Promise<void> {
  if (!saleId) {
    state.refusal = 'campaign_not_found';
    return show();
  }
  askedAtMs ||= Date.now();
  try {
    const before = state.campaign?.status;
    const campaign = await sale.campaign(fresh);
    state.campaign = campaign;
    looked();
    if (campaign.status !== 'paused') state.pausedAtMs = null;
    countWaiting();
    const unitIsFree = state.refusal === 'sold_out' && campaign.sold_out === false;
    const isNewer = Date.parse(campaign.server_time) > refusedAtMs;
    if ((before !== campaign.status || (unitIsFree && isNewer)) && !state.trying) state.refusal = null;
    // The data may be from before the refusal: a cache keeps them for a second, and `Date` has whole seconds.
    if (unitIsFree && !isNewer && sale.now() - refusedAtMs < LOOK_SOON_MS) setTimeout(lookAtSale, LOOK_SOON_MS, true);
    const startsAtMs = Date.parse(state.campaign.starts_at);
    prepareAtMs ||= startsAtMs - PREPARE_MS * (0.2 + 0.8 * Math.random());
    checkAtMs ||= startsAtMs - CHECK_MS * (1 + Math.random());
  } catch (error) {
    if (error instanceof Refusal && !error.passes) looked();
    if (state.campaign === null || !(error instanceof Refusal) || !error.passes) refuse(error);
  }
  show();
}

/** The server has responded, if only that it knows no such sale. */
function looked(): void {
  lookedAtMs = Date.now();
  askedAtMs = 0;
}

/** For a shopper whose reservation ended: how many wait in the line that they may join again. */
async function countWaiting(): Promise<void> {
  const hasEnded = ['expired', 'released'].includes(state.standing?.status ?? '');
  if (!hasEnded || !state.campaign?.has_line) return;
  try {
    const response = await fetch(`/flash-sale/line?product_id=${encodeURIComponent(productId)}`);
    state.waiting = response.ok ? Number((await response.json()).data.waiting) : null;
  } catch {
    state.waiting = null;
  }
  show();
}

/** Looks when no cache has data from before this moment any more. The shoppers of a sale do so within some seconds. */
function lookSoonAgain(): void {
  clearTimeout(lookSoon);
  lookSoon = window.setTimeout(lookAtSale, LOOK_SOON_MS * (1 + 3 * Math.random()), true);
}

function setStatus(status: 'open' | 'paused'): void {
  if (state.campaign) state.campaign = { ...state.campaign, status };
  // A response from before may be on its way, and would replace it.
  lookSoonAgain();
  if (state.standing) speakView();
  show();
}

function lookAgainLater(): void {
  setTimeout(
    async () => {
      if (document.visibilityState === 'visible' && sale.connection !== 'live') await lookAtSale();
      lookAgainLater();
    },
    (looksOften() ? LOOK_OFTEN_MS : LOOK_EVERY_MS) * (0.75 + Math.random() / 2),
  );
}

function looksOften(): boolean {
  const { campaign, standing } = state;
  if (isFollowed(standing)) return false;
  if (askedAtMs > 0) return true;
  if (!campaign || campaign.status === 'ended' || campaign.sold_out) return false;
  return Date.parse(campaign.starts_at) <= sale.now();
}

function isFollowed(standing: Standing | null): boolean {
  return standing !== null && ['queued', 'promoted', 'completed'].includes(standing.status);
}

function onChange(standing: Standing, before: Standing | null): void {
  if (standing.status !== before?.status) state.notice = '';
  state.standing = standing;
  state.refusal = null;
  forward(standing, before);
  if (standing.position !== null) {
    const isNew = before?.status !== 'queued';
    state.firstPlace = Math.max(isNew ? 1 : state.firstPlace, standing.position);
    speakPlace(standing);
  }
  const isLonger = standing.status === before?.status && standing.pay_before !== before?.pay_before;
  if (standing.status !== before?.status || isLonger) {
    spokenSeconds = Number.POSITIVE_INFINITY;
    state.waiting = null;
    countWaiting();
    if (standing.status === 'promoted' && before?.status === 'queued' && sound.checked) signals.call();
    speakView();
  }
  show();
}

/** Opens the page to pay once, when this shopper gets a unit while the page is open. */
function forward({ status, checkout_url }: Standing, before: Standing | null): void {
  const isNew = (status === 'promoted' || status === 'completed') && before?.status !== status;
  if (!page.forward || !checkout_url || !isNew || !sale.holdsTicket || forwarded.has(checkout_url)) return;
  forwarded.add(checkout_url);
  remembered.setItem('doorbuster|forwarded', checkout_url);
  state.forwarding = true;
  location.assign(checkout_url);
}

function speak(text: string): void {
  element('spoken').textContent = text;
  spokenAt = Date.now();
}

function speakView(): void {
  const { headline, caption, detail } = viewOf({ ...state, trying: false }, sale.now(), words);
  speak([headline, caption, detail].filter(Boolean).join('. '));
}

function speakPlace({ position, queue_size: size }: Standing): void {
  if (position === null || (position > NEAR_PLACE && Date.now() - spokenAt < SPEAK_EVERY_MS)) return;
  speak(fill(texts.moved, { position, size }));
}

function show(): void {
  // Until something is known, the page stays as the server rendered it.
  if (!state.campaign && !state.standing && !state.refusal && !state.trying) return;
  const focused = document.activeElement;
  const nowMs = sale.now();
  state.holdsTicket = sale.holdsTicket;
  state.connection = navigator.onLine ? sale.connection : 'offline';
  state.quietMs = sale.connection && sale.heardAtMs ? Date.now() - sale.heardAtMs : null;
  state.units = sale.transfer?.qty ?? null;
  state.alert = alertOf();
  state.lookedMs = lookedAtMs ? Date.now() - lookedAtMs : null;
  state.askedMs = askedAtMs ? Date.now() - askedAtMs : null;
  const view = viewOf(state, nowMs, words);
  shown = view;
  const mine = isFollowed(state.standing);
  document.body.classList.toggle('mine', mine);
  element('continue').hidden = !mine || !state.holdsTicket;
  // A place does not move to the Home Screen, because pages there have a storage of their own.
  element('install').hidden = !notifications.needsHomeScreen || !mayJoin();
  const name = page.title ?? state.campaign?.name ?? String(element('name').textContent);
  write('name', name);
  showView(view, saleId, nowMs);
  // A control that had the focus may be gone.
  if (focused && element('stage').contains(focused) && focused.getClientRects().length === 0)
    element('headline').focus();
  watchDeadline(view, nowMs);
  const title = `${view.mood === 'turn' ? '★ ' : ''}${view.title} – ${name}`;
  if (document.title !== title) document.title = title;
  if (checkAtMs > 0 && nowMs >= checkAtMs && state.campaign?.status === 'scheduled') {
    checkAtMs = Number.POSITIVE_INFINITY;
    lookAtSale(true);
  }
  if (prepareAtMs > 0 && nowMs >= prepareAtMs && state.campaign?.status === 'scheduled') {
    prepareAtMs = Number.POSITIVE_INFINITY;
    sale.prepare().catch(() => {
      // The attempt requests the token itself.
    });
  }
}

/** Announces the last seconds. Requests the status once at the end, because the frame about it may have been lost. */
function watchDeadline({ clock, pay }: View, nowMs: number): void {
  const payBefore = state.standing?.pay_before;
  const untilMs = clock?.untilMs ?? pay?.untilMs ?? null;
  const endMs = untilMs ?? (payBefore && isFollowed(state.standing) ? Date.parse(payBefore) : 0);
  if (endMs > 0 && nowMs >= endMs && checkedEndMs !== endMs) {
    checkedEndMs = endMs;
    setTimeout(comeBack, 1_000 * (1 + Math.random()));
  }
  if (untilMs === null) return;
  const leftMs = untilMs - nowMs;
  const due = SPOKEN_SECONDS.filter((seconds) => leftMs <= seconds * 1000).at(-1);
  if (due === undefined || due >= spokenSeconds) return;
  spokenSeconds = due;
  speak(fill(texts.minute, { seconds: Math.ceil(leftMs / 1000) }));
}
