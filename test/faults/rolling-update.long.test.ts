import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { Crowd } from '../harness/crowd.js';
import { createTestDatabase, startTestServer } from '../harness/engines.js';
import { Fleet } from '../harness/fleet.js';
import { buildRevision, hasThisFormat } from '../harness/revision.js';
import { serviceEnv } from '../harness/service.js';
import { checkoutAtOnce, gatherShoppers, joinLine } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';
import { expectNothingLost, ledger } from '../harness/verdict.js';

/**
 * The build that is in production before the update: that of the last commit. Two builds of one format run together; a
 * build of another format refuses to start (test/e2e/formats.test.ts).
 */
const PREVIOUS = 'HEAD';
/** A busy machine needs a minute for the whole update. */
const UPDATE_LIMIT_MS = 300_000;
const IN_LINE = 24;

const withHistory = hasThisFormat(PREVIOUS) ? describe : describe.skip;
if (withHistory === describe.skip)
  process.stderr.write('skipped: a rolling update needs a commit with the format of these sources\n');

withHistory('a rolling update', () => {
  it('loses nothing while two builds of one format run together', async () => {
    const old = buildRevision(PREVIOUS);
    const redis = await startTestServer();
    const database = await createTestDatabase(null);
    const env = serviceEnv(redis.url, database.url);
    migrate(old, env);
    const fleet = new Fleet(env);
    await Promise.all([fleet.startApi(old), fleet.startApi(old), fleet.startWorker(old), fleet.startWorker(old)]);

    const [sale, lateSale] = [await openSale(fleet), await openSale(fleet)];
    const crowd = new Crowd({ product: sale, perSecond: 80, target: fleet.target });
    // Its connections go on to an API that stops, until the API closes them.
    let closings = 0;
    const onClosing = (url: string) => {
      closings += 1;
      fleet.left(url);
    };
    const late = new Crowd({ product: lateSale, perSecond: 40, target: fleet.lateTarget, onClosing });
    const line = await openLine(fleet);
    const people = line.waiting.map((shopper) => waitForPromotion(fleet, shopper));
    const payments = new Payments(fleet, crowd);
    crowd.start();
    late.start();
    payments.start();

    const goesOn = async () => {
      const [sold, rows] = [crowd.completed.length, await rowsOf(database.client)];
      await until('checkouts succeed', () => crowd.completed.length >= sold + 50, UPDATE_LIMIT_MS);
      await until('promises are persisted', async () => (await rowsOf(database.client)) >= rows + 50, UPDATE_LIMIT_MS);
      await line.release(IN_LINE / 8);
    };
    await goesOn();
    // As the chart does: the schema first, while the old revision serves.
    migrate(projectRoot(), env);
    await goesOn();
    // All of the old revision, and then one of each of the new one: what stops is different code.
    for (let round = 0; round < 3; round += 1) {
      await fleet.replaceWorker();
      await goesOn();
      await fleet.replaceApi();
      await goesOn();
    }

    const promoted = await Promise.all(people);
    await Promise.all([crowd.finish(), late.finish()]);
    await payments.finish();

    // Each shopper was sent one promotion of their own, and had to connect again for it at most when an API stopped.
    expect(new Set(promoted.map(({ reservation }) => reservation)).size).toBe(IN_LINE);
    expect(promoted.filter(({ connections }) => connections > 1).length).toBeGreaterThan(0);
    // No request in flight was cut off: only 503 was repeated. An API that stopped closed the connections of late clients.
    expect(crowd.told.reduce((repeated, { tries }) => repeated + tries - 1, 0)).toBe(crowd.refused);
    expect(closings).toBeGreaterThan(0);
    expect(payments.refused).toEqual([]);
    expect(payments.paid.size).toBeGreaterThan(0);
    await expectNothingLost(crowd, env, database.client, sale);
    await expectNothingLost(late, env, database.client, lateSale);
    await expectPromoted(env, line.product, promoted);
    const { rows } = await database.client.query<{ redemption_id: string }>(
      "select redemption_id from redemptions where status = 'redeemed'",
    );
    expect(new Set(rows.map(({ redemption_id }) => redemption_id))).toEqual(payments.paid);
  });
});

function migrate(root: string, env: NodeJS.ProcessEnv): void {
  execFileSync(process.execPath, [join(root, 'dist/migrations/main.js')], { env });
}

function openSale(fleet: Fleet): Promise<string> {
  const terms = { total_limit: 1_000_000, hold_seconds: 3_600, require_attestation: false };
  return new Operator(fleet.target()).openCampaign(terms);
}

async function rowsOf(client: { query(sql: string): Promise<{ rows: { count: string }[] }> }): Promise<number> {
  return Number((await client.query('select count(*) as count from redemptions')).rows[0]?.count);
}

/** A campaign whose units are all held, and as many people in line. `release` gives units back. */
async function openLine(fleet: Fleet) {
  const terms = { total_limit: IN_LINE, hold_seconds: 3_600, waiting_room: { enabled: true } };
  const url = fleet.target();
  const product = await new Operator(url).openCampaign(terms);
  const holders = await checkoutAtOnce(gatherShoppers(url, product, IN_LINE));
  const held = holders.map(({ data }) => String(data.reservation_id));
  const waiting = await joinLine(gatherShoppers(url, product, IN_LINE));
  const release = async (count: number) => {
    for (const reservation of held.splice(0, count))
      await retried(() => new PaymentService(fleet.target()).release(reservation));
  };
  return { product, waiting, release };
}

/** Stays connected until the promotion arrives; a connection that ends is replaced by one to an API in service. */
async function waitForPromotion(fleet: Fleet, shopper: Shopper) {
  for (let connections = 1; ; connections += 1) {
    const socket = await openSocket(fleet.target(), shopper.ticket);
    const news = await until(
      'the shopper is promoted or the connection ends',
      () =>
        socket.ofType('promoted')[0] ??
        socket.ofType('welcome').find(({ status }) => status === 'promoted') ??
        (socket.closeCode !== null && 'closed'),
      UPDATE_LIMIT_MS,
    );
    if (news !== 'closed') {
      await socket.hangUp();
      return { user: shopper.user, reservation: String(news.reservation_id), connections };
    }
  }
}

async function expectPromoted(
  env: NodeJS.ProcessEnv,
  product: string,
  promoted: readonly { reservation: string }[],
): Promise<void> {
  const { verdict } = await ledger(env, product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  expect(promoted.every(({ reservation }) => /^[0-9a-f-]{36}$/.test(reservation))).toBe(true);
}

/** Repeats a call that got no response or 503, as its caller would. */
async function retried<Reply extends { status: number }>(call: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await call().catch(() => null);
    if (reply && reply.status !== 503) return reply;
    await sleep(50);
  }
}

/** Pays for what the crowd got, for as long as it arrives. */
class Payments {
  readonly paid = new Set<string>();
  readonly refused: string[] = [];
  #running = true;
  #loop: Promise<void> | null = null;

  constructor(
    readonly fleet: Fleet,
    readonly crowd: Crowd,
  ) {}

  start(): void {
    this.#loop = this.#run();
  }

  async finish(): Promise<void> {
    this.#running = false;
    await this.#loop;
  }

  async #run(): Promise<void> {
    for (let next = 0; this.#running; ) {
      const bought = this.crowd.completed[next];
      if (!bought) {
        await sleep(10);
        continue;
      }
      next += 1;
      const reservation = String(bought.body.data.reservation_id);
      const { status, text } = await retried(() => new PaymentService(this.fleet.target()).confirm(reservation));
      if (status === 200) this.paid.add(reservation);
      else this.refused.push(`${status} ${text}`);
    }
  }
}
