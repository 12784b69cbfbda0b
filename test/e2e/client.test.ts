import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, jest, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { TabStore } from '../../client/attempt.js';
import {
  type Attempt,
  MemoryStore,
  Refusal,
  Sale,
  type SaleOptions,
  type SocketLike,
  type Standing,
} from '../../client/sale.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { expectStock } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { FlakyFetch } from '../harness/flaky-fetch.js';
import { handOverOf, SIGNING_KEY, secondsFromNow } from '../harness/identity.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const Socket = WebSocket as unknown as new (url: string) => SocketLike;

/** A sale in one tab, with the events it got and the requests it sent. */
function openTab(productId: string, options: Partial<SaleOptions> = {}) {
  const network = new FlakyFetch();
  const sale = new Sale({
    productId,
    userId: `user-${randomUUID()}`,
    baseUrl: service.url,
    store: new MemoryStore(),
    WebSocket: Socket,
    fetch: network.fetch,
    ...options,
  });
  const told: string[] = [];
  for (const event of ['queued', 'promoted', 'completed', 'redeemed', 'released', 'expired', 'left', 'closed'] as const)
    sale.on(event, () => told.push(event));
  const connections: string[] = [];
  sale.on('connection', (connection) => connections.push(connection));
  atEnd('a tab', () => sale.stop());
  return { sale, network, told, connections };
}

const heldByAnother = async (terms: Record<string, unknown> = {}) => {
  const terms_ = { total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true }, ...terms };
  const product = await operator.openCampaign(terms_);
  const holder = arrive(service.url, product);
  return { product, held: String((await holder.checkout()).data.reservation_id) };
};
const stands = (sale: Sale, status: Standing['status']) =>
  until(`the shopper is ${status}`, () => sale.standing?.status === status);
const refusalOf = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => (error instanceof Refusal ? error.code : String(error)),
  );

describe('a place that is followed without a socket', () => {
  test('moves by the public data of the line alone, and exactly near its head', async () => {
    const { product, held } = await heldByAnother({ total_limit: 3 });
    const others = [arrive(service.url, product), arrive(service.url, product)];
    const holds = [
      held,
      ...(await Promise.all(others.map((one) => one.checkout()))).map(({ data }) => data.reservation_id),
    ];
    for (let i = 0; i < 12; i += 1) await arrive(service.url, product).checkout();
    const { sale, network } = openTab(product, { WebSocket: null });
    // An estimate may last for a third of the hold.
    await sale.campaign();
    await sale.attempt();
    const positions: unknown[] = [];
    sale.on('position', ({ position }) => positions.push(position));
    const asked = (path: string) => network.calls.filter((call) => call.path === path).length;
    await until('the line is followed', () => asked('/flash-sale/line') >= 2);
    expect([sale.standing?.position, asked('/flash-sale/queue-status')]).toEqual([13, 1]);
    for (const hold of holds.slice(0, 2)) await payments.release(String(hold));
    await until('the place has moved', () => sale.standing?.position === 11);
    expect(asked('/flash-sale/queue-status')).toBe(1);
    expect([sale.standing?.queue_size, sale.connection]).toEqual([11, 'polling']);
    await payments.release(String(holds[2]));
    await until('the place has moved again', () => sale.standing?.position === 10);
    // The tenth place and those before it are exact.
    expect(asked('/flash-sale/queue-status')).toBe(2);
  });

  test('is polled where users have to be seen', async () => {
    const { product } = await heldByAnother({ waiting_room: { enabled: true, presence_seconds: 30 } });
    for (let i = 0; i < 11; i += 1) await arrive(service.url, product).checkout();
    const { sale, network } = openTab(product, { WebSocket: null });
    await sale.attempt();
    const paths = () => network.calls.map(({ path }) => path).filter((path) => /line|queue/.test(path));
    await until('the third poll', () => paths().filter((path) => path.endsWith('queue-status')).length >= 3);
    expect(paths().filter((path) => path.endsWith('line'))).toHaveLength(1);
  });
});

describe('another device of a user who waits', () => {
  test('follows the place without the ticket, and cannot give it up', async () => {
    const { product, held } = await heldByAnother();
    const userId = `user-${randomUUID()}`;
    const [first, second] = [openTab(product, { userId }), openTab(product, { userId })];
    await first.sale.attempt();
    const standing = await second.sale.attempt();
    expect([standing.status, standing.position]).toEqual(['queued', 1]);
    expect([first.sale.holdsTicket, second.sale.holdsTicket]).toEqual([true, false]);
    await until('the place is followed', () => second.connections.includes('polling'));
    expect(second.connections).not.toContain('live');
    expect(await refusalOf(second.sale.leave())).toBe('ticket_invalid');
    await payments.release(held);
    await Promise.all([stands(first.sale, 'promoted'), stands(second.sale, 'promoted')]);
    expect(first.sale.standing?.order_id).toEqual(expect.any(String));
    expect(second.sale.standing?.order_id).toBeNull();
    expect(await refusalOf(second.sale.release())).toBe('unauthorized');
  });

  test('has the ticket when the shop hands the same user over to it', async () => {
    const { product } = await heldByAnother();
    const SHOPPER_SIGNING_KEYS = `s1:${SIGNING_KEY.toString('base64')}`;
    const { url } = await startApiProcess({ ...service.env, SHOPPER_SIGNING_KEYS });
    const userId = `user-${randomUUID()}`;
    const signed = () => handOverOf({ user_id: userId, product_id: product, expires_at: secondsFromNow(60) });
    const tabOf = (handOver: () => string | null) => openTab(product, { userId, baseUrl: url, handOver });
    const [first, second, stranger] = [tabOf(signed), tabOf(signed), tabOf(() => null)];
    await first.sale.attempt();
    expect((await second.sale.attempt()).position).toBe(1);
    expect(second.sale.holdsTicket).toBe(true);
    expect(await refusalOf(stranger.sale.attempt())).toBe('unauthorized');
    await second.sale.leave();
    await stands(second.sale, 'left');
  });

  test('gets a new ticket in place of one whose key was retired', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const SHOPPER_SIGNING_KEYS = `s1:${SIGNING_KEY.toString('base64')}`;
    const { url } = await startApiProcess({ ...service.env, SHOPPER_SIGNING_KEYS });
    const userId = `user-${randomUUID()}`;
    const handOver = () => handOverOf({ user_id: userId, product_id: product, expires_at: secondsFromNow(60) });
    const first = openTab(product, { userId, baseUrl: url, handOver });
    await first.sale.attempt();
    const { sale, connections } = openTab(product, { userId, baseUrl: url, handOver });
    const { ticket, ...attempt } = first.sale.transfer as Attempt;
    await sale.adopt({ ...attempt, ticket: `${ticket}x` });
    const lost: string[] = [];
    sale.on('lost', (code) => lost.push(code));
    expect(await sale.resume()).toMatchObject({ status: 'completed' });
    await until('the ticket is lost', () => lost.length > 0);
    expect([lost, connections]).toEqual([['ticket_invalid'], ['polling']]);
    const standing = await sale.attempt();
    expect([sale.holdsTicket, standing.reservation_id]).toEqual([true, first.sale.standing?.reservation_id]);
    await until('the socket is accepted', () => connections.includes('live'));
    await sale.release();
    await expectStock(operator, product, { free: 1 });
  });
});

describe('an attempt', () => {
  test('gets a unit, and a second press meanwhile is the same attempt', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 5 });
    const { sale, network, told } = openTab(product);
    const first = sale.attempt();
    expect(sale.attempt()).toBe(first);
    const standing = await first;
    expect(standing).toMatchObject({ status: 'completed', order_id: expect.stringMatching(/^ord_/), position: null });
    expect(await sale.attempt()).toEqual(sale.standing);
    expect(network.of('/flash-sale/checkout').length).toBe(1);
    await payments.confirm(String(standing.reservation_id));
    await stands(sale, 'redeemed');
    expect(told).toEqual(['completed', 'redeemed']);
    await expectStock(operator, product, { total: 5, free: 4, redeemed: 1 });
  });

  test('whose answer was lost is repeated with its key and takes one unit', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 5 });
    const { sale, network } = openTab(product);
    network.loseAnswerOf('/flash-sale/checkout');
    const retries: string[] = [];
    sale.on('retry', ({ code }) => retries.push(code));
    expect((await sale.attempt()).status).toBe('completed');
    const keys = network.of('/flash-sale/checkout').map(({ headers }) => headers.get('idempotency-key'));
    expect(keys.length).toBe(2);
    expect(keys[1]).toBe(keys[0]);
    expect(retries).toEqual(['unreachable']);
    await expectStock(operator, product, { total: 5, free: 4, held: 1 });
  });

  test('is repeated with its key after 503, 429 and a stale token, not before Retry-After', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const { sale, network } = openTab(product);
    network.refuse('/flash-sale/checkout', 503, 'temporarily_unavailable', { 'Retry-After': '1' });
    network.refuse('/flash-sale/checkout', 429, 'rate_limited', { 'Retry-After': '1' });
    network.refuse('/flash-sale/checkout', 401, 'attestation_expired');
    const waits: number[] = [];
    sale.on('retry', ({ after_ms }) => waits.push(after_ms));
    expect((await sale.attempt()).status).toBe('completed');
    const calls = network.of('/flash-sale/checkout');
    expect(calls.map(({ status }) => status)).toEqual([503, 429, 401, 200]);
    expect(new Set(calls.map(({ headers }) => headers.get('idempotency-key'))).size).toBe(1);
    expect(network.of('/flash-sale/token').length).toBe(2);
    expect(waits.length).toBe(2);
    for (const wait of waits) expect(wait).toBeGreaterThanOrEqual(1000);
  });

  test('that is refused is not repeated, and the next one is a new attempt', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const holder = arrive(service.url, product);
    const held = String((await holder.checkout()).data.reservation_id);
    const { sale, network } = openTab(product);
    expect(await refusalOf(sale.attempt())).toBe('sold_out');
    expect(network.of('/flash-sale/checkout').length).toBe(1);
    await payments.release(held);
    expect((await sale.attempt()).status).toBe('completed');
    const [first, second] = network.of('/flash-sale/checkout').map(({ headers }) => headers.get('idempotency-key'));
    expect(second).not.toBe(first);
  });

  test('that gives up keeps its key for the next press', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 5 });
    const { sale, network } = openTab(product, { retryForMs: 100 });
    await sale.prepare();
    network.loseAnswerOf('/flash-sale/checkout');
    expect(await refusalOf(sale.attempt())).toBe('unreachable');
    expect((await sale.attempt()).status).toBe('completed');
    await expectStock(operator, product, { total: 5, free: 4, held: 1 });
    expect(new Set(network.of('/flash-sale/checkout').map(({ headers }) => headers.get('idempotency-key'))).size).toBe(
      1,
    );
  });

  test('that gets a challenge is sent again with the solution of the hook', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
    const challenges: unknown[] = [];
    const { sale, network } = openTab(product, {
      onChallenge: async (challenge) => {
        challenges.push(challenge);
        return { proof: 'three' };
      },
    });
    network.refuse('/flash-sale/checkout', 403, 'challenge_required');
    expect((await sale.attempt()).status).toBe('completed');
    expect(challenges).toEqual([{ kind: 'sum', of: [1, 2] }]);
    const [first, second] = network.of('/flash-sale/checkout');
    expect([first?.body.proof, second?.body.proof]).toEqual([undefined, 'three']);
    expect(second?.headers.get('idempotency-key')).toBe(first?.headers.get('idempotency-key'));
  });
});

describe('a response of another server', () => {
  const open = (terms = {}) => operator.openCampaign({ total_limit: 5, hold_seconds: 900, ...terms });
  const held = (product: string) => expectStock(operator, product, { total: 5, free: 4, held: 1 });
  const html = (status: number, headers = {}) => new Response('<html>', { status, headers });
  /** The response of a checkout that took a unit is lost, and its retry gets `then`. */
  async function retryMeets(product: string, then: (network: FlakyFetch) => void, options: Partial<SaleOptions> = {}) {
    const shared = { userId: `user-${randomUUID()}`, store: new MemoryStore(), ...options };
    const tab = openTab(product, shared);
    await tab.sale.prepare();
    tab.network.loseAnswerOf('/flash-sale/checkout');
    tab.sale.on('retry', () => then(tab.network));
    return { ...tab, shared };
  }

  test('does not end a unit that is followed without a socket', async () => {
    const { sale, network } = openTab(await open(), { WebSocket: null });
    const lost: string[] = [];
    sale.on('lost', (code) => lost.push(code));
    await sale.attempt();
    for (const status of [404, 403, 407, 410]) network.answer('/flash-sale/queue-status', () => html(status));
    const polls = () => network.of('/flash-sale/queue-status').filter(({ status }) => status === 200).length;
    const before = polls();
    for (let i = 0; i < 5; i += 1) {
      sale.wake();
      await until('the poll has its response', () => network.of('/flash-sale/queue-status').every((c) => c.status > 0));
    }
    await until('the service responds again', () => polls() > before);
    expect([lost, sale.standing?.status, sale.holdsTicket]).toEqual([[], 'completed', true]);
  });

  test('does not end a reload', async () => {
    const product = await open();
    const shared = { userId: `user-${randomUUID()}`, store: new MemoryStore() };
    await openTab(product, shared).sale.attempt();
    const after = openTab(product, shared);
    after.network.answer('/flash-sale/queue-status', () => html(404));
    await after.sale.resume();
    await stands(after.sale, 'completed');
    await held(product);
  });

  test.each([404, 403, 407, 409, 410, 429])(
    'with %s does not end an attempt whose response was lost',
    async (status) => {
      const product = await open();
      // The second try is the last one.
      const { sale, network } = await retryMeets(
        product,
        (to) => to.answer('/flash-sale/checkout', () => html(status)),
        { retryForMs: 700 },
      );
      expect(await refusalOf(sale.attempt())).toBe('unreachable');
      network.answer('/flash-sale/checkout', () => html(status, { 'Retry-After': new Date(Date.now()).toUTCString() }));
      expect((await sale.attempt().catch(() => sale.attempt())).status).toBe('completed');
      await held(product);
    },
  );

  test('nor does a refusal by the service that says nothing about the lost response', async () => {
    for (const [status, code] of [
      [403, 'blocked'],
      [401, 'unauthorized'],
      [400, 'invalid_request'],
      // A proxy may deliver the first try after these.
      [410, 'sold_out'],
      [409, 'campaign_not_started'],
      [404, 'not_found'],
    ] as const) {
      const product = await open({ per_user_limit: 1 });
      const { sale } = await retryMeets(product, (network) => network.refuse('/flash-sale/checkout', status, code));
      expect(await refusalOf(sale.attempt())).toBe(code);
      expect(await sale.attempt()).toMatchObject({ status: 'completed' });
      await held(product);
    }
  });

  test('does not end the second attempt either, after the first one has ended', async () => {
    const product = await open({ per_user_limit: 1 });
    const { sale, network } = openTab(product, { retryForMs: 100 });
    await sale.attempt();
    await sale.release();
    expect(sale.standing?.status).toBe('released');
    network.loseAnswerOf('/flash-sale/checkout');
    expect(await refusalOf(sale.attempt())).toBe('unreachable');
    expect(await sale.attempt()).toMatchObject({ status: 'completed' });
    await held(product);
  });

  test('but a quantity that the service refused may be changed', async () => {
    const product = await open({ max_qty: 2, per_user_limit: 2 });
    const { sale, network } = openTab(product);
    network.answer('/flash-sale/checkout', () => html(502));
    expect(await refusalOf(sale.attempt(9_999))).toMatch(/^(?!unreachable)/);
    expect(await sale.attempt(1)).toMatchObject({ status: 'completed' });
    await held(product);
  });

  test('a ticket that was refused for a moment comes back with the key', async () => {
    const product = await open({ per_user_limit: 1 });
    const { sale, network } = openTab(product, { WebSocket: null });
    const { reservation_id } = await sale.attempt();
    network.refuse('/flash-sale/queue-status', 401, 'ticket_invalid');
    const lost = new Promise((resolve) => sale.on('lost', resolve));
    sale.wake();
    expect(await lost).toBe('ticket_invalid');
    expect(sale.standing).toBeNull();
    expect(await sale.attempt()).toMatchObject({ status: 'completed', reservation_id });
    expect(sale.holdsTicket).toBe(true);
    await held(product);
  });

  test('costs none of many buyers a unit or a place', async () => {
    const product = await operator.openCampaign({
      total_limit: 20,
      hold_seconds: 900,
      per_user_limit: 1,
      waiting_room: { enabled: true, max_size: 20 },
    });
    const answers = [
      () => html(404),
      () => html(403),
      () => html(407),
      () => html(502),
      () => html(429, { 'Retry-After': new Date(Date.now()).toUTCString() }),
      () => new Response('', { status: 200 }),
    ];
    let turn = 0;
    // Of each six requests, one is answered before it reaches the service, and one after.
    const fetchThroughProxy: typeof fetch = async (...request) => {
      turn += 1;
      const answer = answers[turn % answers.length] as () => Response;
      const place = Math.random();
      if (place < 1 / 6) return answer();
      const response = await fetch(...request);
      return place > 1 / 3 ? response : response.arrayBuffer().then(answer);
    };
    const buyers = Array.from(
      { length: 50 },
      () => openTab(product, { WebSocket: null, fetch: fetchThroughProxy }).sale,
    );
    const outcomes = await Promise.all(
      buyers.map((sale) =>
        sale.attempt().then(
          ({ status }) => status,
          (error: Refusal) => error.code,
        ),
      ),
    );
    const count = (of: string) => outcomes.filter((outcome) => outcome === of).length;
    expect([count('completed'), count('queued'), count('waiting_room_full'), outcomes.length]).toEqual([
      20, 20, 10, 50,
    ]);
    await expectStock(operator, product, { total: 20, free: 0, held: 20, waiting: 20 });
  });
});

describe('the line', () => {
  test('gets positions and the promotion over the socket, without polling', async () => {
    const { product, held } = await heldByAnother();
    const [first, second] = [openTab(product), openTab(product)];
    expect(await first.sale.attempt()).toMatchObject({ status: 'queued', position: 1 });
    expect(await second.sale.attempt()).toMatchObject({ status: 'queued', position: 2 });
    await until('both hear news', () => [first, second].every(({ connections }) => connections.at(-1) === 'live'));
    await payments.release(held);
    await stands(first.sale, 'promoted');
    await until('the other one moved up', () => second.sale.standing?.position === 1);
    expect(Date.parse(String(first.sale.standing?.pay_before))).toBeGreaterThan(Date.now());
    expect(first.told).toEqual(['queued', 'promoted']);
    expect(first.network.of('/flash-sale/queue-status')).toEqual([]);
    await first.sale.release('changed their mind');
    expect(first.sale.standing?.status).toBe('released');
    await stands(second.sale, 'promoted');
  });

  test('polls where no socket is available, with its ETag and at the advertised pace', async () => {
    const { product, held } = await heldByAnother();
    const { sale, network, connections } = openTab(product, { WebSocket: null });
    expect(await sale.attempt()).toMatchObject({ status: 'queued', poll_after_seconds: 2 });
    const startedAt = performance.now();
    await until('a poll got 304', () => network.calls.some(({ status }) => status === 304));
    const asked = network.of('/flash-sale/queue-status');
    // A slow look may see more of them.
    expect(asked.slice(0, 2).map(({ status }) => status)).toEqual([200, 304]);
    expect(asked[1]?.headers.get('if-none-match')).toMatch(/^"/);
    expect(performance.now() - startedAt).toBeGreaterThan(1_900);
    expect(connections).toEqual(['polling']);
    await payments.release(held);
    await stands(sale, 'promoted');
  });

  test('reconnects after an API stops, and after a cut', async () => {
    const { product, held } = await heldByAnother();
    const other = await startApiProcess(service.env);
    let port = other.url;
    class Switched extends (WebSocket as unknown as new (url: string) => SocketLike) {
      constructor(url: string) {
        super(url.replace(service.url.replace('http', 'ws'), port.replace('http', 'ws')));
      }
    }
    const { sale, network, connections } = openTab(product, { WebSocket: Switched });
    await sale.attempt();
    await until('it hears news', () => connections.at(-1) === 'live');
    port = service.url;
    network.cut();
    await other.process.stop();
    await until('it came back, elsewhere', () => connections.length >= 3 && connections.at(-1) === 'live');
    expect(connections[1]).toBe('polling');
    await payments.release(held);
    await stands(sale, 'promoted');
    network.mend();
  });

  test('detects a silent socket that was never closed, and polls instead', async () => {
    const { product, held } = await heldByAnother();
    const open: Silent[] = [];
    class Silent extends (WebSocket as unknown as new (url: string) => SocketLike) {
      constructor(url: string) {
        super(url);
        open.push(this);
      }
      fallSilent() {
        this.onmessage = null;
      }
    }
    const { sale, connections } = openTab(product, { WebSocket: Silent });
    await sale.attempt();
    await until('it hears news', () => connections.at(-1) === 'live');
    open[0]?.fallSilent();
    await payments.release(held);
    sale.wake();
    await stands(sale, 'promoted');
    expect(connections.slice(0, 2)).toEqual(['live', 'polling']);
  });

  test('detects a server that sent heartbeats and has fallen silent', async () => {
    const { product, held } = await heldByAnother();
    let heartbeats = 0;
    const open: (SocketLike & { onmessage: unknown })[] = [];
    class Watched extends (WebSocket as unknown as new (url: string) => SocketLike) {
      constructor(url: string) {
        super(url);
        open.push(this);
        (this as unknown as WebSocket).addEventListener('message', ({ data }) => {
          if (String(data).includes('"heartbeat"')) heartbeats += 1;
        });
      }
    }
    const { sale, connections } = openTab(product, { WebSocket: Watched, pingMs: 3_600_000 });
    await sale.attempt();
    await until('a heartbeat comes', () => heartbeats > 0);
    const [socket] = open;
    if (socket) socket.onmessage = null;
    await payments.release(held);
    await stands(sale, 'promoted');
    expect(connections.slice(0, 2)).toEqual(['live', 'polling']);
  });

  test('is left for good, and the next attempt is a new place', async () => {
    const { product } = await heldByAnother();
    const { sale, told } = openTab(product);
    await sale.attempt();
    await sale.leave();
    expect(sale.standing).toMatchObject({ status: 'left', position: null });
    expect(await sale.attempt()).toMatchObject({ status: 'queued', position: 1 });
    expect(told).toEqual(['queued', 'left', 'queued']);
  });

  test('that is closed emits closed', async () => {
    const { product } = await heldByAnother();
    const { sale, connections } = openTab(product);
    await sale.attempt();
    await until('it hears news', () => connections.at(-1) === 'live');
    await operator.call('POST', `/admin/campaigns/${product}/close`);
    await stands(sale, 'closed');
  });
});

describe('a reload and a second tab', () => {
  test('go on with the same key and ticket', async () => {
    const { product, held } = await heldByAnother();
    const shared = { userId: 'user-of-two-tabs', store: new MemoryStore() };
    const first = openTab(product, shared);
    const second = openTab(product, shared);
    expect(await second.sale.resume()).toBeNull();
    const [one, other] = await Promise.all([first.sale.attempt(), second.sale.attempt()]);
    expect([one.status, one.position, other.status, other.position]).toEqual(['queued', 1, 'queued', 1]);
    await expectStock(operator, product, { total: 1, held: 1, waiting: 1 });
    first.sale.stop();

    await payments.release(held);
    const reloaded = openTab(product, shared);
    expect(await reloaded.sale.resume()).toMatchObject({ status: 'promoted', position: null });
    await stands(second.sale, 'promoted');
    expect(reloaded.sale.standing?.reservation_id).toBe(second.sale.standing?.reservation_id);
  });

  test('end an attempt whose response was not read', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, per_user_limit: 5 });
    const shared = { userId: 'user-who-reloads', store: new MemoryStore() };
    const before = openTab(product, { ...shared, retryForMs: 0 });
    before.network.loseAnswerOf('/flash-sale/checkout');
    expect(await refusalOf(before.sale.attempt())).toBe('unreachable');
    const after = openTab(product, shared);
    expect(await after.sale.resume()).toMatchObject({ status: 'completed' });
    await expectStock(operator, product, { total: 5, free: 4, held: 1 });
  });

  test('keep the key of a stored ticket that is not accepted any more, for the next attempt', async () => {
    const { product } = await heldByAnother();
    const store = new MemoryStore();
    const kept = `doorbuster|${product}|user-with-old-ticket`;
    store.setItem(kept, JSON.stringify({ key: 'an-old-key', qty: 1, ticket: 't1.1.eA.forged' }));
    const { sale } = openTab(product, { userId: 'user-with-old-ticket', store });
    const lost: string[] = [];
    sale.on('lost', (code) => lost.push(code));
    expect(await sale.resume()).toBeNull();
    expect(lost).toEqual(['ticket_invalid']);
    expect(store.getItem(kept)).toContain('an-old-key');
    expect(await sale.attempt()).toMatchObject({ status: 'queued', position: 1 });
    expect(store.getItem(kept)).not.toContain('forged');
  });
});

test('the public view uses the server’s clock and does not contain the stock', async () => {
  const startsAt = new Date(Date.now() + 3_600_000).toISOString();
  const product = await operator.openCampaign({ name: 'Night sale', total_limit: 7, starts_at: startsAt });
  const { sale } = openTab(product);
  const asked = performance.now();
  const view = await sale.campaign();
  const tookMs = performance.now() - asked;
  const aheadMs = sale.now() - Date.parse(view.server_time);
  expect(view).toEqual({
    product_id: product,
    name: 'Night sale',
    status: 'scheduled',
    starts_at: startsAt,
    ends_at: null,
    server_time: expect.stringMatching(/Z$/),
    has_line: false,
    sold_out: false,
    hold_seconds: 0,
  });
  expect(Math.abs(aheadMs)).toBeLessThan(2_000 + tookMs);
  expect(await refusalOf(sale.attempt())).toBe('campaign_not_started');
  for (const [action, status] of [
    ['open', 'open'],
    ['pause', 'paused'],
    ['resume', 'open'],
    ['close', 'ended'],
  ] as const) {
    await operator.call('POST', `/admin/campaigns/${product}/${action}`);
    expect((await sale.campaign()).status).toBe(status);
  }
  expect(await refusalOf(openTab('no-such-sale').sale.campaign())).toBe('campaign_not_found');
  const draft = await operator.openCampaign({ draft: true });
  expect(await refusalOf(openTab(draft).sale.campaign())).toBe('campaign_not_found');
});

test('the public view names a line, and that nothing can be had', async () => {
  const view = async (product: string) => {
    const { has_line, sold_out } = await openTab(product).sale.campaign();
    return [has_line, sold_out];
  };
  const plain = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
  expect(await view(plain)).toEqual([false, false]);
  await arrive(service.url, plain).checkout();
  expect(await view(plain)).toEqual([false, true]);
  const { product, held } = await heldByAnother();
  expect(await view(product)).toEqual([true, false]);
  await payments.confirm(held);
  expect(await view(product)).toEqual([true, true]);
  const line = { enabled: true };
  expect(await view(await operator.openCampaign({ total_limit: 0, waiting_room: line }))).toEqual([true, false]);
  expect(await view(await operator.openCampaign({ total_limit: null }))).toEqual([false, false]);
});

test('a browser whose database cannot be used keeps everything in the other store', async () => {
  const forbidden = {
    open: () => {
      throw new Error('the operation is insecure');
    },
  };
  const copy = new MemoryStore();
  const store = new TabStore(copy, () => forbidden);
  await store.setItem('name', 'kept');
  expect([copy.getItem('name'), await store.getItem('name')]).toEqual(['kept', 'kept']);
  await store.removeItem('name');
  expect(await store.getItem('name')).toBeNull();
});

test('the client finds values that only the other store has, because the database had failed', async () => {
  const opening = { result: {} } as Record<string, unknown>;
  const empty = { get: () => ({ result: undefined }), put: () => ({}), delete: () => ({}) };
  opening.result = {
    transaction: () => {
      const transaction = { objectStore: () => empty, oncomplete: () => {}, onabort: null };
      setImmediate(() => transaction.oncomplete());
      return transaction;
    },
  };
  const databases = {
    open: () => {
      setImmediate(() => (opening.onsuccess as () => void)());
      return opening;
    },
  };
  const copy = new MemoryStore();
  copy.setItem('name', 'of before');
  expect(await new TabStore(copy, () => databases as never).getItem('name')).toBe('of before');
});

/** Runs the first sample of client/README.md as it is there, against this service. */
async function runSample(productId: string) {
  const text = readFileSync(join(projectRoot(), 'client/README.md'), 'utf8');
  const code = String(/```js\n([\s\S]*?)```/.exec(text)?.[1]).replace(/^import .*$/m, '');
  const shown: string[] = [];
  const paid: [string, string][] = [];
  const button: { onclick: () => Promise<unknown> } = { onclick: () => Promise.resolve() };
  class Here extends Sale {
    constructor(options: SaleOptions) {
      expect(options.baseUrl).toMatch(/^https:/);
      super({
        ...options,
        baseUrl: service.url,
        productId,
        userId: `user-${randomUUID()}`,
        store: new MemoryStore(),
        WebSocket: Socket,
      });
      atEnd('the sale of the sample', () => this.stop());
    }
  }
  const names = ['Sale', 'Refusal', 'show', 'pay', 'button'];
  const run = new Function(...names, `return (async () => {${code}})()`) as (...values: unknown[]) => Promise<void>;
  await run(
    Here,
    Refusal,
    (line: string) => shown.push(line),
    (url: string, until_: string) => paid.push([url, until_]),
    button,
  );
  return { press: () => button.onclick(), shown, paid };
}

describe('the sample of the README', () => {
  test('lets a shopper pay who gets a unit at once', async () => {
    const product = await operator.openCampaign({
      total_limit: 1,
      hold_seconds: 900,
      checkout_url: 'https://shop.example/pay?order={order_id}&sig={signature}',
    });
    const { press, shown, paid } = await runSample(product);
    await press();
    expect(shown).toEqual([]);
    expect(paid).toEqual([[expect.stringContaining('https://shop.example/pay?order=ord_'), expect.any(String)]]);
  });

  test('lets a shopper pay after waiting, once, and shows only places', async () => {
    const { product, held } = await heldByAnother();
    const { press, shown, paid } = await runSample(product);
    await press();
    expect(shown).toEqual(['1 of 1']);
    await payments.release(held);
    await until('it is the turn of the shopper', () => paid.length === 1);
    expect(paid).toEqual([[expect.stringMatching(/^\/pay\/ord_/), expect.any(String)]]);
    expect(shown).toEqual(['1 of 1']);
  });

  test('shows that a unit without a price is theirs', async () => {
    const { press, shown, paid } = await runSample(await operator.openCampaign({ total_limit: 1 }));
    await press();
    expect([shown, paid]).toEqual([['It is yours.'], []]);
  });
});

describe('a call that a browser blocks', () => {
  const blocked =
    (isThere: boolean): typeof fetch =>
    async (_, init) => {
      if (isThere && init?.mode === 'no-cors') return new Response(null);
      throw new TypeError('Failed to fetch');
    };
  const failWith = async (options: Partial<SaleOptions>) => {
    const warn = jest.spyOn(console, 'warn').mockImplementation(() => {});
    Object.assign(globalThis, { location: { origin: 'https://shop.example' } });
    const { sale } = openTab('sale', { baseUrl: 'https://api.example', retryForMs: 0, ...options });
    const error = await sale.attempt().catch((thrown: Refusal) => thrown);
    await sale.attempt().catch(() => {});
    delete (globalThis as { location?: unknown }).location;
    const warnings = warn.mock.calls.map(([text]) => String(text));
    warn.mockRestore();
    return { error: error as Refusal, warnings };
  };

  test('is named with the setting to change, once in the console, and may still be retried', async () => {
    const { error, warnings } = await failWith({ fetch: blocked(true) });
    expect([error.code, error.passes]).toEqual(['unreachable', true]);
    expect(error.message).toContain('add https://shop.example to SHOP_ORIGINS');
    expect(warnings).toEqual([expect.stringContaining('https://api.example')]);
  });

  test('is not suspected when the server does not respond either, nor on the same origin', async () => {
    for (const options of [{ fetch: blocked(false) }, { fetch: blocked(true), baseUrl: 'https://shop.example/api' }]) {
      const { error, warnings } = await failWith(options);
      expect([error.code, error.message.includes('SHOP_ORIGINS'), warnings]).toEqual(['unreachable', false, []]);
    }
  });
});

test('a browser loads less than 10.1 KB of the client, compressed', () => {
  const folder = join(projectRoot(), 'dist/client');
  // Nothing loads types.js, which has only types. A page of the shop's own does without element.js and countdown.js.
  const scripts = readdirSync(folder).filter(
    (name) => name.endsWith('.js') && !['types.js', 'element.js', 'countdown.js'].includes(name),
  );
  expect(scripts.sort()).toEqual([
    'answers.js',
    'attempt.js',
    'calls.js',
    'codes.js',
    'device-token.js',
    'emitter.js',
    'line-estimate.js',
    'proof-of-work.js',
    'sale.js',
    'server-clock.js',
    'status-follower.js',
  ]);
  const sizes = scripts.map((name) => gzipSync(readFileSync(join(folder, name)), { level: 9 }).length);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(10_100);
});
