import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { LIMITS } from '../../shared/config/limits.js';
import { Journal } from '../../shared/redis/journal.js';
import { atEnd } from '../harness/cleanup.js';
import { PaymentService, Shopper, send } from '../harness/clients.js';
import type { ServiceProcess } from '../harness/service.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const JOURNAL_LIMIT = 1_000;

const stage = await Stage.set({ JOURNAL_LIMIT: String(JOURNAL_LIMIT) });
const redis = stage.connectToRedis();
const api = stage.apis[0] as ServiceProcess;
const holder = new pg.Client(stage.postgres.url);
await holder.connect();
atEnd('a client', () => holder.end());
// The lock of a test that failed would stop the next one.
afterEach(() => holder.query('rollback'));
const journalEntries = async () => (await new Journal(redis).backlog()).entries;

test('a journal that is full refuses what is new, goes on with what was promised, and takes in again by itself', async () => {
  const product = await stage.openCampaign({ total_limit: 500 });
  await until('the journal is empty', async () => (await journalEntries()) === 0);
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const [early, payer, leaver] = [0, 1, 2].map(() => new Shopper(stage.url, product));
  const key = randomUUID();
  const first = await early!.checkoutWithHeader(key);
  const [paid, left] = [await payer!.checkout(), await leaver!.checkout()];
  const crowd = stage.crowd(product, 500);
  crowd.start();
  await until('the journal is full', async () => (await journalEntries()) >= JOURNAL_LIMIT);
  await until('people are refused', () => crowd.refused >= 300);
  // Exactly to the limit: the three above, and everybody of the crowd who was promised something.
  expect(await journalEntries()).toBe(JOURNAL_LIMIT);
  await until('everybody who was promised something knows it', () => crowd.told.length === JOURNAL_LIMIT - 3);
  expect(crowd.completed.length).toBe(500 - 3);

  const late = await new Shopper(stage.url, product).checkout();
  expect([late.status, late.body.code]).toEqual([503, 'temporarily_unavailable']);
  expect(Number(late.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  const ready = await send(`${stage.url}/readyz`);
  expect([ready.status, ready.data.checks.journal.ok]).toEqual([503, false]);

  const replay = await early!.checkoutWithHeader(key);
  expect([replay.status, replay.headers.get('idempotent-replayed'), replay.text]).toEqual([200, 'true', first.text]);
  const payments = new PaymentService(stage.url);
  const confirmed = await payments.confirm(paid.data.reservation_id);
  expect([confirmed.status, confirmed.data.status]).toEqual([200, 'redeemed']);
  const released = await payments.release(left.data.reservation_id);
  expect([released.status, released.data.released]).toEqual([200, true]);
  const standing = await payer!.queueStatus();
  expect([standing.status, standing.data.status]).toEqual([200, 'redeemed']);
  // The head of the line has the unit that came back, so everybody else is one further.
  const last = crowd.queued.toSorted((a, b) => b.body.data.position - a.body.data.position)[0]!;
  const again = await new Shopper(stage.url, product, last.user).checkout();
  expect([again.status, again.data.position]).toEqual([202, last.body.data.position - 1]);

  await holder.query('rollback');
  const told = crowd.told.length;
  await until('people are promised something again', () => crowd.told.length >= told + 100);
  await crowd.finish();
  expect(crowd.completed.length).toBe(500 - 3);
  await stage.ready();
  await stage.expectNothingLost(crowd, product);
});

test('a flood of checkouts is answered to the last one, and what is refused is served later', async () => {
  const product = await stage.openCampaign({ total_limit: 500, waiting_room: { enabled: false } });
  const payments = new PaymentService(stage.url);
  const holder = await new Shopper(stage.url, product).checkout();
  // More than may wait, and all at once: the API does nothing else until they are sent. Of each connection one is served at a
  // time while requests wait, so the others are not even read.
  const lines = Math.ceil((1.2 * LIMITS.http.requestsWaiting) / AT_ONCE);
  const pipelines = Array.from({ length: lines }, () => new Pipeline(stage.url, product, newUsers(AT_ONCE)));
  for (let start = 0; start < lines; start += CONNECTED_AT_ONCE)
    await Promise.all(pipelines.slice(start, start + CONNECTED_AT_ONCE).map((pipeline) => pipeline.connected()));
  api.child.kill('SIGSTOP');
  const flood = pipelines.map((pipeline) => pipeline.answers());
  await Promise.all(pipelines.map((pipeline) => pipeline.sent));
  api.child.kill('SIGCONT');
  // What was accepted is served meanwhile.
  const confirmed = await payments.confirm(holder.data.reservation_id);
  expect([confirmed.status, confirmed.data.status]).toEqual([200, 'redeemed']);
  const all = (await Promise.all(flood)).flat();
  const lost = pipelines.flatMap((pipeline) => pipeline.lost);
  expect(all.length + lost.length).toBe(lines * AT_ONCE);
  const told = (status: number) => all.filter((answer) => answer.status === status);
  expect(told(200).length + told(410).length + told(503).length).toBe(all.length);
  expect(told(200).length).toBeGreaterThan(0);
  expect(told(503).filter(({ retryAfter }) => !(retryAfter >= 1))).toEqual([]);

  // Whoever was refused comes back with his key until he is told: the stock went to exactly as many as there were
  // units.
  let served = told(200).length;
  let refused = [...told(503).map(({ user }) => user), ...lost];
  await until('everybody has been told', async () => {
    const pipeline = new Pipeline(stage.url, product, refused.slice(0, 200));
    await pipeline.connected();
    const again = await pipeline.answers();
    served += again.filter(({ status, firstStatus }) => status === 200 || firstStatus === 200).length;
    const rejected = again.filter(({ status }) => status === 503).map(({ user }) => user);
    refused = [...refused.slice(200), ...rejected, ...pipeline.lost];
    return refused.length === 0;
  });
  expect(served).toBe(500 - 1);
  await stage.expectNothingLost(stage.crowd(product), product);
});

type Told = { user: string; status: number; retryAfter: number; firstStatus: number };

/** A process serves so many requests of one connection at once; more of them would only wait there. */
const AT_ONCE = LIMITS.http.requestsPerConnection;
/** Fewer than a listener accepts at once. */
const CONNECTED_AT_ONCE = 200;
const newUsers = (count: number) => Array.from({ length: count }, () => `user-${randomUUID()}`);

/**
 * A connection on which checkouts of many users are sent without waiting for answers, each with the user as its key.
 */
class Pipeline {
  readonly told: Told[] = [];
  /** Resolves when all requests were handed to the network, or the connection was ended. */
  sent: Promise<void> = Promise.resolve();
  #reset = false;
  #socket: Socket | null = null;

  constructor(
    readonly url: string,
    readonly product: string,
    readonly users: readonly string[],
  ) {}

  /** Connects, or finds that the listener is too busy; then all users are `lost`. */
  async connected(): Promise<void> {
    const { hostname, port } = new URL(this.url);
    const socket = connect({ host: hostname, port: Number(port) });
    this.#socket = socket;
    await once(socket, 'connect').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET') throw error;
    });
  }

  /** Sends all, and returns when as many answers have come or the connection was ended. */
  answers(): Promise<Told[]> {
    return new Promise((resolve, reject) => {
      const socket = this.#socket;
      if (!socket) return reject(new Error('not connected'));
      let rest = '';
      socket.setEncoding('latin1').on('data', (text) => {
        rest = this.#take(rest + text);
        if (this.told.length === this.users.length) socket.end();
      });
      socket.on('close', () => resolve(this.told));
      socket.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') return reject(error);
        this.#reset = true;
      });
      const requests = this.users.map((user) => this.#request(user)).join('');
      this.sent = new Promise((written) => socket.write(requests, () => written()));
    });
  }

  /** Users without an answer whose connection was reset: a busy machine accepts too late. They retry with their key. */
  get lost(): readonly string[] {
    return this.#reset ? this.users.slice(this.told.length) : [];
  }

  #request(user: string): string {
    const body = JSON.stringify({ product_id: this.product, user_id: user, qty: 1, idempotency_key: user });
    const head = `POST /flash-sale/checkout HTTP/1.1\r\nHost: flood\r\nContent-Type: application/json`;
    return `${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  }

  /** @returns what is not a whole answer yet */
  #take(text: string): string {
    for (let rest = text; ; ) {
      const end = rest.indexOf('\r\n\r\n');
      const head = rest.slice(0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
      if (end < 0 || rest.length < end + 4 + length) return rest;
      this.told.push({
        user: String(this.users[this.told.length]),
        status: Number(head.slice(9, 12)),
        retryAfter: Number(/retry-after: (\d+)/i.exec(head)?.[1] ?? Number.NaN),
        firstStatus: Number(/"original_status":(\d+)/.exec(rest.slice(end, end + 4 + length))?.[1] ?? Number.NaN),
      });
      rest = rest.slice(end + 4 + length);
    }
  }
}
