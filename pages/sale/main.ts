import { Refusal, Sale, type Standing } from '../../client/sale.js';
import { Signals } from './signals.js';
import { fill, LANGUAGES, languageOf } from './texts.js';
import { countdownText, type PageState, type View, viewOf } from './view.js';
import { readVisitor } from './visitor.js';

const TICK_MS = 250;
/** How often the page requests the sale while it follows no standing; spread by a quarter in both directions. */
const LOOK_EVERY_MS = 20_000;
/** The device token is requested within this time before the start, which saves a call at the start. */
const PREPARE_MS = 15_000;
/** How often a screen reader announces the place at most. The first places are announced at once. */
const SPEAK_EVERY_MS = 10_000;
const NEAR_PLACE = 3;
/** Remaining seconds that are announced. */
const SPOKEN_SECONDS = [60, 30, 10];

const element = (id: string) => document.getElementById(id) as HTMLElement;
const visitor = readVisitor();
const address = new URL(location.href);
const language = languageOf(address.searchParams.get('lang'), navigator.languages);
const { texts } = LANGUAGES[language];
/** The region determines the format of times and numbers. */
const locale = navigator.languages.find((tag) => tag.toLowerCase().startsWith(language)) ?? language;
const productId = decodeURIComponent(location.pathname.split('/')[2] ?? '');
const remembered = rememberedItems();
const words = { texts, time: timeText };
const signals = new Signals();

const state: PageState = {
  campaign: null,
  standing: null,
  holdsTicket: false,
  trying: false,
  refusal: null,
  retry: null,
  connection: null,
  firstPlace: 1,
};
let prepareAtMs = 0;
let checkedEndMs = 0;
let spokenAt = 0;
let spokenSeconds = Number.POSITIVE_INFINITY;

const sale = new Sale({ productId, userId: visitor?.userId ?? namedUser(), ...visitor?.proof });
sale.on('change', onChange);
sale.on('connection', show);
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
show();
setInterval(show, TICK_MS);
await Promise.all([lookAtSale(), goOn()]);
lookAgainLater();

function setUp(): void {
  document.documentElement.lang = language;
  element('sound-label').textContent = texts.sound;
  element('order-label').textContent = texts.order;
  element('way').setAttribute('aria-label', texts.way);
  element('place-label').textContent = texts.yourPlace;
  const sound = element('sound') as HTMLInputElement;
  sound.checked = remembered.getItem('doorbuster|sound') !== 'off';
  sound.addEventListener('change', () => remembered.setItem('doorbuster|sound', sound.checked ? 'on' : 'off'));
  setUpLanguages();
  element('act').addEventListener('click', () => {
    if (element('act').getAttribute('aria-disabled') !== 'true') buy();
  });
  element('second').addEventListener('click', giveUp);
  addEventListener('online', comeBack);
  addEventListener('offline', show);
  addEventListener('pageshow', (event) => event.persisted && comeBack());
  document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && comeBack());
  // Another tab has got a ticket for a place or a unit.
  addEventListener('storage', ({ key, newValue }) => {
    if (key === `doorbuster|${productId}|${sale.options.userId}` && newValue?.includes('"ticket"')) goOn();
  });
}

function setUpLanguages(): void {
  const nav = element('languages');
  nav.setAttribute('aria-label', texts.languages);
  for (const [tag, { name }] of Object.entries(LANGUAGES)) {
    const there = new URL(address);
    there.searchParams.set('lang', tag);
    there.hash = '';
    const link = document.createElement('a');
    link.href = there.href;
    link.lang = tag;
    link.hreflang = tag;
    link.textContent = name;
    if (tag === language) link.setAttribute('aria-current', 'true');
    nav.append(link);
  }
}

async function buy(): Promise<void> {
  signals.unlock();
  await during(async () => {
    await sale.attempt();
  });
}

async function goOn(): Promise<void> {
  try {
    await sale.resume();
  } catch (error) {
    refuse(error);
  }
  show();
}

async function giveUp(): Promise<void> {
  const leaving = state.standing?.status === 'queued';
  if (!confirm(leaving ? texts.leaveSure : texts.giveBackSure)) return;
  try {
    await (leaving ? sale.leave() : sale.release());
  } catch (error) {
    refuse(error);
    sale.wake();
  }
  show();
}

async function during(work: () => Promise<void>): Promise<void> {
  state.trying = true;
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
  }
}

function refuse(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
  state.refusal = error.code;
}

function comeBack(): void {
  sale.wake();
  lookAtSale();
  show();
}

async function lookAtSale(): Promise<void> {
  try {
    const before = state.campaign?.status;
    state.campaign = await sale.campaign();
    if (before !== state.campaign.status && !state.trying) state.refusal = null;
    prepareAtMs ||= Date.parse(state.campaign.starts_at) - PREPARE_MS * (0.2 + 0.8 * Math.random());
  } catch (error) {
    if (state.campaign === null || !(error instanceof Refusal) || !error.passes) refuse(error);
  }
  show();
}

function lookAgainLater(): void {
  setTimeout(
    async () => {
      if (document.visibilityState === 'visible' && !isFollowed(state.standing)) await lookAtSale();
      lookAgainLater();
    },
    LOOK_EVERY_MS * (0.75 + Math.random() / 2),
  );
}

const isFollowed = (standing: Standing | null) =>
  standing !== null && ['queued', 'promoted', 'completed'].includes(standing.status);

function onChange(standing: Standing, before: Standing | null): void {
  state.standing = standing;
  state.refusal = null;
  if (standing.position !== null) {
    const isNew = before?.status !== 'queued';
    state.firstPlace = Math.max(isNew ? 1 : state.firstPlace, standing.position);
    speakPlace(standing);
  }
  if (standing.status !== before?.status) {
    spokenSeconds = Number.POSITIVE_INFINITY;
    const sounds = (element('sound') as HTMLInputElement).checked;
    if (standing.status === 'promoted' && before?.status === 'queued' && sounds) signals.call();
    const { headline, detail } = viewOf({ ...state, trying: false }, sale.now(), words);
    speak(`${headline} ${detail}`);
  }
  show();
}

function speak(text: string): void {
  element('spoken').textContent = text;
  spokenAt = Date.now();
}

function speakPlace({ position, queue_size: size }: Standing): void {
  if (position === null || (position > NEAR_PLACE && Date.now() - spokenAt < SPEAK_EVERY_MS)) return;
  speak(fill(texts.moved, { position, size }));
}

function show(): void {
  const nowMs = sale.now();
  state.holdsTicket = sale.holdsTicket;
  state.connection = navigator.onLine ? sale.connection : 'offline';
  const view = viewOf(state, nowMs, words);
  write('name', state.campaign?.name ?? productId);
  write('headline', view.headline);
  write('detail', view.detail);
  write('trouble', view.trouble);
  write('connection', view.connection);
  element('stage').dataset.mood = view.mood;
  showPlace(view);
  showClock(view, nowMs);
  showOrder(view);
  showButtons(view);
  const title = `${view.mood === 'good' ? '★ ' : ''}${view.title} – ${state.campaign?.name ?? productId}`;
  if (document.title !== title) document.title = title;
  if (prepareAtMs > 0 && nowMs >= prepareAtMs && state.campaign?.status === 'scheduled') {
    prepareAtMs = Number.POSITIVE_INFINITY;
    sale.prepare().catch(() => {
      // The attempt requests the token itself.
    });
  }
}

function showPlace({ place }: View): void {
  element('place').hidden = element('way').hidden = place === null;
  if (!place) return;
  write('position', numberText(place.position));
  write('queue-size', fill(texts.of, { size: numberText(place.size) }));
  (element('way') as HTMLProgressElement).value = place.percent;
}

function showClock({ clock }: View, nowMs: number): void {
  element('clock').hidden = clock === null;
  const payBefore = state.standing?.pay_before;
  const endMs = clock?.untilMs ?? (payBefore && isFollowed(state.standing) ? Date.parse(payBefore) : 0);
  // Requests the status once at the end, because the frame about it may have been lost.
  if (endMs > 0 && nowMs >= endMs && checkedEndMs !== endMs) {
    checkedEndMs = endMs;
    setTimeout(comeBack, 1_000 * (1 + Math.random()));
  }
  if (!clock) return;
  const leftMs = clock.untilMs - nowMs;
  write('clock-label', clock.label);
  write('clock-time', countdownText(leftMs));
  const due = SPOKEN_SECONDS.filter((seconds) => leftMs <= seconds * 1000).at(-1);
  if (due !== undefined && due < spokenSeconds) {
    spokenSeconds = due;
    speak(fill(texts.minute, { seconds: Math.ceil(leftMs / 1000) }));
  }
}

function showOrder({ order }: View): void {
  element('order').hidden = order === null;
  if (!order) return;
  write('order-label', order.label);
  write('order-id', order.text);
}

function showButtons({ button, second }: View): void {
  const act = element('act');
  const quiet = element('second');
  const focused = document.activeElement;
  write('act', button?.label ?? '');
  // Not `disabled`, because that would lose the focus at the moment of the press.
  act.setAttribute('aria-disabled', String(!button?.enabled));
  act.hidden = button === null;
  write('second', second?.label ?? '');
  quiet.hidden = second === null;
  if ((focused === act && act.hidden) || (focused === quiet && quiet.hidden)) element('headline').focus();
}

function write(id: string, text: string): void {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}

function timeText(iso: string): string {
  const time = new Date(iso);
  const isToday = time.toDateString() === new Date(sale.now()).toDateString();
  return new Intl.DateTimeFormat(locale, { ...(isToday ? {} : { dateStyle: 'medium' }), timeStyle: 'medium' }).format(
    time,
  );
}

function numberText(value: number): string {
  return new Intl.NumberFormat(locale).format(value);
}

function rememberedItems(): Pick<Storage, 'getItem' | 'setItem'> {
  try {
    localStorage.setItem('doorbuster', '1');
    return localStorage;
  } catch {
    return { getItem: () => null, setItem: () => {} };
  }
}

/**
 * The user id in the shop's link. A visitor without one is a guest, with the same id each time. This proves nothing to
 * the server.
 */
function namedUser(): string {
  const given = address.searchParams.get('user_id');
  if (given) return given;
  const kept = remembered.getItem('doorbuster|guest');
  if (kept) return kept;
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  const made = `guest-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  remembered.setItem('doorbuster|guest', made);
  return made;
}
