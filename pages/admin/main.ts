import type { Role } from '../../shared/domain/role.js';
import { auditView } from './audit.js';
import { bansView } from './bans.js';
import { call, Refused } from './calls.js';
import { campaignView } from './campaign.js';
import { campaignListView } from './campaign-list.js';
import { createView } from './create.js';
import { editView } from './edit.js';
import { el, write } from './elements.js';
import { findView } from './find.js';
import { healthView } from './health.js';
import { keysView } from './keys.js';
import { loginView, returnToView, type Session } from './login.js';
import { paymentsView } from './payments.js';
import { personView } from './person.js';
import { Poll } from './poll.js';
import { may, roleNote, setSession } from './role.js';
import type { View } from './view.js';
import { webhookView } from './webhook.js';
import { webhooksView } from './webhooks.js';
import { worryOf } from './words.js';

/** The places of the navigation, with the role that each needs. */
const PLACES: [string, string, Role][] = [
  ['#/', 'Campaigns', 'viewer'],
  ['#/find', 'Find', 'support'],
  ['#/payments', 'Payments', 'support'],
  ['#/bans', 'Bans', 'support'],
  ['#/health', 'Health', 'viewer'],
  ['#/webhooks', 'Webhooks', 'admin'],
  ['#/keys', 'Keys', 'admin'],
  ['#/audit', 'Audit', 'admin'],
  ['/admin/queues', 'Queues', 'admin'],
];
/** The role that a view needs. */
const NEEDED: Record<string, Role> = {
  new: 'marketer',
  edit: 'marketer',
  find: 'support',
  people: 'support',
  payments: 'support',
  bans: 'support',
  webhooks: 'admin',
  keys: 'admin',
  audit: 'admin',
};
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
  returnToView();
  setSession(opened);
  const links = PLACES.filter(([, , needed]) => may(needed)).map(([href, name]) => el('a', { href }, name));
  element('places').replaceChildren(...links);
  write(element('operator'), `${opened.operator} · ${opened.role}`);
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
  const needed = NEEDED[place] ?? 'viewer';
  if (!may(needed)) return notAllowed(needed);
  switch (place) {
    case '':
      return campaignListView(new URLSearchParams(query));
    case 'new':
      return createView(new URLSearchParams(query).get('copy'));
    case 'edit':
      return editView(decoded(name));
    case 'find':
      return findView(new URLSearchParams(query));
    case 'people':
      return personView(decoded(name));
    case 'payments':
      return paymentsView(new URLSearchParams(query));
    case 'bans':
      return bansView();
    case 'webhooks':
      return name === '' ? webhooksView() : webhookView(decoded(name));
    case 'audit':
      return auditView(new URLSearchParams(query));
    case 'keys':
      return keysView();
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
  const home = homeOf(here);
  for (const place of element('places').querySelectorAll('a')) {
    if (place.getAttribute('href') === home) place.setAttribute('aria-current', 'page');
    else place.removeAttribute('aria-current');
  }
  main.replaceChildren(next.root);
}

/** The place of the navigation to which an address belongs. */
function homeOf(hash: string): string {
  if (/^#\/(campaigns|new|edit)/.test(hash)) return '#/';
  if (hash.startsWith('#/webhooks')) return '#/webhooks';
  return hash.startsWith('#/people') ? '#/find' : hash;
}

function notAllowed(needed: Role): View {
  const heading = el('h1', { tabindex: -1 }, 'Not allowed');
  const root = el('div', { class: 'card' }, heading, roleNote('This page', needed));
  return { title: 'Not allowed', root, query: () => null, show: () => {} };
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
