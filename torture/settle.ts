import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster/cluster.js';
import type { Caller } from './crowd/caller.js';
import type { Crowd } from './crowd/crowd.js';
import type { Call, History } from './history.js';

/** After the last fault, a new checkout should succeed within so long; a busy machine may take longer. */
export const RECOVERY_LIMIT_MS = 10_000;
/** What does not serve so long after the last fault does not come back by itself. */
export const NEVER_MS = 120_000;
/** Clients retry for so long after the faults. So the judge can distinguish a late return from no return. */
export const PATIENCE_MS = NEVER_MS + 15_000;
/** Clients that are under way get so long to receive their final responses. */
const FINISH_LIMIT_MS = 25_000;
/** Longest hold of any campaign, and the sweep. */
const HOLDS_END_MS = 7_000;
const DRAIN_LIMIT_MS = 30_000;
const REPLAYS = 200;
const LOOK_EVERY_MS = 250;
const PROBE = 'probe';

/** Creates the campaign that shows whether an API sells. */
export async function openProbe(caller: Caller): Promise<void> {
  await caller.insist({
    kind: 'create',
    method: 'POST',
    path: '/admin/campaigns',
    product: PROBE,
    as: 'admin',
    json: { product_id: PROBE, total_limit: null, require_attestation: false },
  });
}

/** Waits until each API sells again. */
export async function awaitRecovery(cluster: Cluster, caller: Caller, history: History): Promise<void> {
  await Promise.all(
    cluster.apis.map(async ({ name: api }) => {
      const began = history.now();
      let sells = false;
      for (let tries = 1; !sells && history.now() - began < PATIENCE_MS; tries += 1) {
        // A new key each time: a demoted primary can still replay the response of an earlier one.
        sells = await probe(caller, api, `${api}-${Math.round(began)}-${tries}`);
        if (!sells) await sleep(LOOK_EVERY_MS);
      }
      history.event({ what: 'recovered', api, afterMs: sells ? history.now() - began : null });
    }),
  );
}

async function probe(caller: Caller, api: string, name: string): Promise<boolean> {
  const user = `probe-${name}`;
  const key = `key-of-${user}`;
  const { status } = await caller.stage.http.send({
    kind: 'checkout',
    method: 'POST',
    path: '/flash-sale/checkout',
    product: PROBE,
    api,
    user,
    key,
    keyIn: 'header',
    headers: { 'idempotency-key': key },
    json: { product_id: PROBE, user_id: user, qty: 1 },
  });
  return status === 200;
}

/** Lets everyone finish, stops what changes by itself, and waits until Postgres has everything. */
export async function comeToRest(crowd: Crowd): Promise<void> {
  await crowd.finish(FINISH_LIMIT_MS);
  await sleep(HOLDS_END_MS);
  const caller = crowd.caller(DRAIN_LIMIT_MS);
  const end = performance.now() + DRAIN_LIMIT_MS;
  while (performance.now() < end) {
    const path = `/admin/campaigns/${PROBE}/stats`;
    const { data } = await caller.once({
      kind: 'stats',
      method: 'GET',
      path,
      product: PROBE,
      as: 'admin',
      final: true,
    });
    if (data.journal_backlog === 0) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/** Repeats acknowledged requests with their keys: each key must have the response that it had. */
export async function replaySome(caller: Caller, calls: readonly Call[]): Promise<void> {
  const acknowledged = calls.filter(
    ({ kind, status, product }) => kind === 'checkout' && (status === 200 || status === 202) && product !== PROBE,
  );
  const every = Math.max(1, Math.floor(acknowledged.length / REPLAYS));
  for (const call of acknowledged.filter((_, i) => i % every === 0)) {
    if (caller.stage.end.aborted) return;
    const { product, user = '', key = '', keyIn = 'header', body } = call;
    await caller.insist({
      kind: 'checkout',
      method: 'POST',
      path: '/flash-sale/checkout',
      product,
      user,
      key,
      keyIn,
      headers: keyIn === 'header' ? { 'idempotency-key': key } : {},
      json: body,
      final: true,
    });
  }
}
