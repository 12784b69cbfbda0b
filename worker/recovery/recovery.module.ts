import { setTimeout as sleep } from 'node:timers/promises';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { RedisGate } from '../../shared/redis/gate.js';
import type { Core } from '../core.js';
import { preheat } from './preheat.js';
import { Recovery, type RecoveryDeps } from './recovery.js';
import { RedisFill } from './redis-fill.js';

/**
 * How long the start waits for Redis to be in service. If a datastore is away, the worker starts without it and begins
 * its work when the datastore is back.
 */
const SERVICE_WAIT_MS = 3_000;

export type Refilling = {
  /** Fills one campaign from Postgres; Redis is out of service meanwhile. */
  refill: (campaign: StoredCampaign, reason: string) => Promise<void>;
  /** Loads a campaign that Redis lacks. */
  preheat: (campaign: StoredCampaign) => Promise<void>;
};

type Persisting = {
  drain: RecoveryDeps['drain'];
  upTo: (journalId: string) => Promise<unknown>;
};

/** Verifies Redis after every change of server, and refills it from Postgres. */
export function recoveryModule(core: Core, persist: Persisting): Refilling {
  const { name, config, log, metrics, life, redis, clock, journal, database, history, sale, filler } = core;
  const campaigns = new CampaignsTable(database);
  const recovery = new Recovery({
    database,
    sale: filler,
    log,
    idempotencyTtlMs: config.idempotencyTtlMs,
    lockDatabase: history.database,
    processId: name,
    campaigns,
    cursor: new JournalCursor(database),
    histories: history.histories,
    recovered: history.recovered,
    redemptions: new RedemptionsTable(database),
    journal,
    fill: new RedisFill(filler.scripts),
    watch: history.watch,
    drain: (upTo, numbered) => persist.drain(upTo, numbered),
    leaveServer: (reason) => redis.leaveServer(reason),
    nowMs: async () => {
      await clock.sample();
      return clock.nowMs();
    },
    metrics,
  });
  life.add('recovery of Redis', {
    async start() {
      recovery.start();
      await inServiceWithin(history.gate, SERVICE_WAIT_MS);
    },
    quiet: () => recovery.stop(),
  });
  const refill: Refilling['refill'] = (campaign, reason) => recovery.refill(campaign, reason);
  const drain = async () => void (await persist.upTo(await journal.lastId()));
  return { refill, preheat: (campaign) => preheat({ database, campaigns, sale, drain, refill }, campaign) };
}

/** Waits until Redis is in service, at most `limitMs`. */
async function inServiceWithin(gate: RedisGate, limitMs: number): Promise<void> {
  const until = performance.now() + limitMs;
  while (!gate.isOpen && performance.now() < until) await sleep(10);
}
