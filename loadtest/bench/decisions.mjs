// Decisions without HTTP: a fixed number of callers call the SaleStore of a checkout of this repository. So Redis gets
// what an API process sends: single calls, pipelines or batches, as that revision combines concurrent calls.
import { once } from 'node:events';
import { join } from 'node:path';

const DAY_MS = 86_400_000;
/** Longer than any run: under callgrind a call takes 50 times as long. */
const CALL_LIMIT_MS = 600_000;

/**
 * @typedef {{ store: any, decide: (product: string, checkouts: number, callers: number) => Promise<number>,
 *   open: () => Promise<string>, close: () => void }} Sale
 */

/**
 * Connects to a Redis as an API process does.
 * @param {string} root the checkout whose dist/ is used
 * @param {string} url
 * @returns {Promise<Sale>}
 */
export async function connectSale(root, url) {
  const load = (/** @type {string} */ file) => import(join(root, 'dist/shared', `${file}.js`));
  const { connectForCommands } = await load('redis/connections');
  const { writeEpoch } = await load('redis/epoch');
  const { ScriptRunner } = await load('redis/script-runner');
  const { SaleStore } = await load('sale/sale-store').catch(() => load('redis/sale-store'));
  const { newReservationPrefix } = await load('domain/ids');
  const redis = connectForCommands(url, { commandMs: CALL_LIMIT_MS, connectMs: 60_000 }, () => {});
  await once(redis, 'ready');
  const store = new SaleStore(new ScriptRunner(redis, join(root, 'lua')), {
    idempotencyTtlMs: DAY_MS,
    journalLimitEntries: 100_000_000,
    deviceQuota: 20,
    deviceWindowMs: 1_000,
    orderMemoryMs: DAY_MS,
    waitReplicas: 0,
  });
  let user = 0;
  let campaigns = 0;
  return {
    store,
    close: () => redis.disconnect(),
    /** Puts a campaign into a Redis that has no API and no worker. @returns its product */
    open: async () => {
      await writeEpoch(redis, { generation: Date.now(), server: 'bench' });
      campaigns += 1;
      const product = `bench-${campaigns}`;
      const { kind } = await store.load(campaign(campaigns, product));
      if (kind !== 'loaded') throw new Error(`the campaign was not loaded: ${kind}`);
      return product;
    },
    /**
     * Makes checkouts of different users and devices, each of which takes a unit. Each caller makes its next call when
     * the last one has returned. This process does not sleep meanwhile, because the kernel would charge Redis for
     * waking it.
     * @returns milliseconds
     */
    decide: async (product, checkouts, callers) => {
      let left = checkouts;
      const expiresAtSeconds = Math.floor(Date.now() / 1000) + 30;
      const call = async () => {
        while (left > 0) {
          left -= 1;
          user += 1;
          const id = `alone-${user}`;
          const device = `fp-${id}`;
          const { kind } = await store.reserve({
            product,
            user: id,
            qty: 1,
            reservationPrefix: newReservationPrefix(),
            order: null,
            token: { expiresAtSeconds },
            key: `key-${product}-${id}`,
            ticketKey: 't1',
            device,
            proven: false,
            holderDevice: device,
            counted: device,
            trace: '',
            terms: 0,
            coupon: null,
            newKeys: 60,
          });
          if (kind !== 'reserved') throw new Error(`Redis decided otherwise: ${kind}`);
        }
      };
      let running = true;
      const stayAwake = () => {
        if (running) setImmediate(stayAwake);
      };
      stayAwake();
      const began = performance.now();
      try {
        await Promise.all(Array.from({ length: callers }, call));
      } finally {
        running = false;
      }
      return performance.now() - began;
    },
  };
}

/**
 * A campaign of ten million units, as an operator opens it without further terms.
 * @param {number} no
 * @param {string} productId
 */
function campaign(no, productId) {
  const now = new Date();
  return {
    id: '00000000-0000-7000-8000-000000000000',
    no,
    productId,
    name: productId,
    type: 'shared',
    code: null,
    totalLimit: 10_000_000,
    status: 'open',
    termsVersion: 1,
    startsAt: new Date(now.getTime() - 60_000),
    endsAt: null,
    timeZone: 'UTC',
    discount: null,
    holdSeconds: 900,
    perUserLimit: 1,
    maxQty: 1,
    waitingRoom: { enabled: false, maxSize: 0, presenceSeconds: null },
    confirmation: 'fast',
    latePayment: 'refuse',
    refundPolicy: 'return',
    requireAttestation: true,
    requireToken: false,
    hasAudience: false,
    stacking: 'combines',
    codes: 0,
    createdAt: now,
    updatedAt: now,
  };
}
