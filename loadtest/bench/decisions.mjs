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
 * @typedef {{ store: any, newPrefix: () => string, begin: () => Promise<void>, close: () => void }} Store
 */

/**
 * Connects to a Redis, or to the shard that a prefix names, as an API process does.
 * @param {string} root the checkout whose dist/ is used
 * @param {string} url
 * @param {string} [keyPrefix] of a shard
 * @returns {Promise<Store>} whose `begin` puts a Redis without API and worker into service
 */
export async function connectStore(root, url, keyPrefix) {
  const load = (/** @type {string} */ file) => import(join(root, 'dist/shared', `${file}.js`));
  /** @type {typeof import('../../shared/redis/connections.js')} */
  const { connectForCommands } = await load('redis/connections');
  /** @type {typeof import('../../shared/redis/epoch.js')} */
  const { writeEpoch } = await load('redis/epoch');
  /** @type {typeof import('../../shared/redis/script-runner.js')} */
  const { ScriptRunner } = await load('redis/script-runner');
  /** @type {typeof import('../../shared/sale/sale-store.js')} */
  const { SaleStore } = await load('sale/sale-store').catch(() => load('redis/sale-store'));
  /** @type {typeof import('../../shared/domain/ids.js')} */
  const { newReservationPrefix } = await load('domain/ids');
  const redis = connectForCommands(url, { commandMs: CALL_LIMIT_MS, connectMs: 60_000 }, () => {}, keyPrefix);
  await once(redis, 'ready');
  const store = new SaleStore(new ScriptRunner(redis, join(root, 'lua')), {
    idempotencyTtlMs: DAY_MS,
    journalLimitEntries: 100_000_000,
    deviceQuota: 20,
    deviceWindowMs: 1_000,
    orderMemoryMs: DAY_MS,
    oneTimeTokenMs: 300_000,
    waitReplicas: 0,
  });
  return {
    store,
    newPrefix: newReservationPrefix,
    begin: () => writeEpoch(redis, { generation: Date.now(), server: 'bench' }),
    close: () => redis.disconnect(),
  };
}

/**
 * Loads a campaign of ten million units. Earlier revisions have this method in the store itself.
 * @param {Store} store
 * @param {number} no
 * @param {string} product
 */
export async function loadCampaign({ store }, no, product) {
  const { kind } = await (store.campaigns ?? store).load(campaign(no, product));
  if (kind !== 'loaded') throw new Error(`the campaign was not loaded: ${kind}`);
}

/**
 * Makes a checkout of a user with a device of their own, which takes a unit.
 * @param {Store} store
 * @param {string} product
 * @param {string} id of the user
 * @param {number} expiresAtSeconds of the device's token
 */
export async function reserveOne({ store, newPrefix }, product, id, expiresAtSeconds) {
  const device = `fp-${id}`;
  const claim = {
    ...{ product, user: id, qty: 1, key: `key-${product}-${id}`, order: null, token: { expiresAtSeconds }, device },
    ...{ proven: false, holderDevice: device, counted: device, network: '', trace: '', metadata: null, coupon: null },
  };
  const { kind } = await (store.claims ?? store).reserve({
    // Other revisions read the fields of the claim here.
    ...claim,
    ...{ claim, reservationPrefix: newPrefix(), ticketKey: 't1', terms: 0, newKeys: 60, bucket: null },
  });
  if (kind !== 'reserved') throw new Error(`Redis decided otherwise: ${kind}`);
}

/**
 * Does work without letting this process sleep, because the kernel would charge Redis for waking it.
 * @param {() => Promise<unknown>} work
 * @returns {Promise<number>} milliseconds
 */
export async function awake(work) {
  let running = true;
  const stayAwake = () => {
    if (running) setImmediate(stayAwake);
  };
  stayAwake();
  const began = performance.now();
  try {
    await work();
  } finally {
    running = false;
  }
  return performance.now() - began;
}

/**
 * Connects to a Redis as an API process does.
 * @param {string} root the checkout whose dist/ is used
 * @param {string} url
 * @returns {Promise<Sale>}
 */
export async function connectSale(root, url) {
  const connected = await connectStore(root, url);
  let user = 0;
  let campaigns = 0;
  return {
    store: connected.store,
    close: connected.close,
    /** Puts a campaign into a Redis that has no API and no worker. @returns its product */
    open: async () => {
      await connected.begin();
      campaigns += 1;
      const product = `bench-${campaigns}`;
      await loadCampaign(connected, campaigns, product);
      return product;
    },
    /**
     * Makes checkouts of different users and devices, each of which takes a unit. Each caller makes its next call when
     * the last one has returned.
     * @returns milliseconds
     */
    decide: (product, checkouts, callers) => {
      let left = checkouts;
      const expiresAtSeconds = Math.floor(Date.now() / 1000) + 30;
      const call = async () => {
        while (left > 0) {
          left -= 1;
          user += 1;
          await reserveOne(connected, product, `alone-${user}`, expiresAtSeconds);
        }
      };
      return awake(() => Promise.all(Array.from({ length: callers }, call)));
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
    rules: {},
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
