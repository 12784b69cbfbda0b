import { bansView } from './bans.js';
import { call, Refused } from './calls.js';
import { campaignView } from './campaign.js';
import { campaignListView } from './campaign-list.js';
import { createView } from './create.js';
import { el, write } from './elements.js';
import { healthView } from './health.js';
import { loginView, type Session } from './login.js';
import { Poll } from './poll.js';
import type { View } from './view.js';
import { worryOf } from './words.js';

const PLACES: [string, string][] = [
  ['#/', 'Campaigns'],
  ['#/bans', 'Bans'],
  ['#/health', 'Health'],
];
const RETRY_MS = 1_000;

const element = (id: string) => document.getElementById(id) as HTMLElement;
const main = element('main');
let session: Session | null = null;
let view: View | null = null;

const poll = new Poll({
  answered(now) {
    link('live', 'Live');
    write(element('trouble'), worryOf(now));
    view?.show(now);
  },
  lost(text) {
    link('lost', 'No connection');
    write(element('trouble'), text);
  },
  loggedOut: () => showLogin('Your session has ended. Log in again to return to this page.'),
  gone(text) {
    link('live', 'Live');
    poll.watch(null, 0);
    open({ title: 'Not found', root: notFound(text), query: () => null, show: () => {} });
  },
});

setUp();
await enter();

function setUp(): void {
  const links = PLACES.map(([href, name]) => el('a', { href }, name));
  element('places').append(...links, el('a', { href: '/admin/queues' }, 'Queues'));
  element('logout').addEventListener('click', logout);
  addEventListener('hashchange', () => {
    if (session) show(true);
  });
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    // A link to #main would count as navigation to another view.
    event.preventDefault();
    main.focus();
  });
}

/** Checks whether the browser has a valid session. */
async function enter(): Promise<void> {
  try {
    begin(await call<Session>('GET', '/admin/session'));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return showLogin('');
    write(element('trouble'), 'The service does not respond. Trying again…');
    setTimeout(enter, RETRY_MS);
  }
}

function begin(opened: Session): void {
  session = opened;
  if (new URLSearchParams(location.search).get('then') === 'queues') return location.replace('/admin/queues');
  write(element('trouble'), '');
  write(element('operator'), opened.operator);
  element('top').hidden = false;
  show(false);
}

function showLogin(why: string): void {
  session = null;
  poll.watch(null, 0);
  view?.close?.();
  view = null;
  element('top').hidden = true;
  write(element('trouble'), '');
  document.title = 'Log in – Doorbuster';
  main.replaceChildren(loginView(why, begin));
  main.querySelector('input')?.focus();
}

async function logout(): Promise<void> {
  try {
    await call('DELETE', '/admin/session');
    showLogin('You are logged out.');
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    write(element('trouble'), 'You are still logged in, because the service does not respond.');
  }
}

function viewOfHash(): View {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [place = '', name = ''] = path.split('/');
  switch (place) {
    case '':
      return campaignListView(new URLSearchParams(query).get('cursor'));
    case 'new':
      return createView();
    case 'bans':
      return bansView();
    case 'health':
      return healthView();
    case 'campaigns':
      return campaignView(decoded(name), () => poll.now());
    default:
      return { title: 'Not found', root: notFound('This page does not exist.'), query: () => null, show: () => {} };
  }
}

/** Decodes a part of the address. A part that cannot be decoded is returned unchanged; no campaign has such a name. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param moved true after navigation: the heading then gets the focus, so that a screen reader announces the view */
function show(moved: boolean): void {
  const next = viewOfHash();
  open(next);
  poll.watch(next.query() ?? 'limit=1', next.everyMs ?? 5_000);
  scrollTo(0, 0);
  if (moved) main.querySelector<HTMLElement>('h1')?.focus();
}

function open(next: View): void {
  view?.close?.();
  view = next;
  document.title = `${next.title} – Doorbuster`;
  const here = location.hash.split('?')[0] || '#/';
  const home = here.startsWith('#/campaigns') || here === '#/new' ? '#/' : here;
  for (const place of element('places').querySelectorAll('a')) {
    if (place.getAttribute('href') === home) place.setAttribute('aria-current', 'page');
    else place.removeAttribute('aria-current');
  }
  main.replaceChildren(next.root);
}

function notFound(text: string): HTMLElement {
  return el(
    'div',
    { class: 'card' },
    el('h1', { tabindex: -1 }, 'Not found'),
    el('p', {}, text),
    el('p', {}, el('a', { href: '#/' }, 'All campaigns')),
  );
}

function link(state: 'live' | 'lost', text: string): void {
  element('link').dataset.state = state;
  write(element('link'), text);
}
