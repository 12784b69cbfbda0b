import type { PushPayload } from '../../shared/sale-page/push-payload.js';

/**
 * The service worker of the sale page. It shows notifications and opens the page, also while no page is open. It caches
 * nothing and handles no requests.
 */

type Waiting = { waitUntil(work: Promise<unknown>): void };
type PushEvent = Waiting & { data: { json(): PushPayload } | null };
type ClickEvent = Waiting & { notification: { close(): void; data: unknown } };
type Window = { url: string; focus(): Promise<unknown> };
/** The parts of ServiceWorkerGlobalScope that are used; its types exclude those of pages. */
type Scope = {
  location: { origin: string };
  registration: { showNotification(title: string, options: object): Promise<void> };
  clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: boolean }): Promise<Window[]>;
    openWindow(url: string): Promise<unknown>;
  };
  addEventListener(type: 'push', listener: (event: PushEvent) => void): void;
  addEventListener(type: 'notificationclick', listener: (event: ClickEvent) => void): void;
};

const scope = globalThis as unknown as Scope;

scope.addEventListener('push', (event) => {
  if (event.data) event.waitUntil(show(event.data.json()));
});

scope.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(open(String(event.notification.data)));
});

function show({ title, body, pay_before, url, lang, dir, tag }: PushPayload): Promise<void> {
  const time = pay_before
    ? new Intl.DateTimeFormat(lang, { hour: '2-digit', minute: '2-digit' }).format(new Date(pay_before))
    : '';
  return scope.registration.showNotification(title, {
    ...{ body: body.replaceAll('{time}', time), lang, dir, tag, data: url },
    // It stays until the shopper reads it, because a unit is held only for minutes.
    requireInteraction: pay_before !== null,
  });
}

/** Focuses the page of the sale if it is open, else opens it. */
async function open(path: string): Promise<void> {
  const url = new URL(path, scope.location.origin);
  if (url.origin !== scope.location.origin || !url.pathname.startsWith('/sale/')) return;
  const windows = await scope.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const there = windows.find((one) => new URL(one.url).pathname === url.pathname);
  await (there ? there.focus() : scope.clients.openWindow(url.href));
}
