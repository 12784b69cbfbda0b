import { setTimeout as sleep } from 'node:timers/promises';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { raiseMapVersion } from '../../shared/postgres/installation.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import { keepInstallation } from '../../shared/shards/keep-installation.js';
import { applyRecovered } from './apply-recovered.js';
import { beginHistory, nextGeneration } from './begin-history.js';
import { type Diagnosis, diagnose, FIRST_START } from './diagnosis.js';
import { lookAt, OtherNumber } from './look.js';
import type { RecoveryDeps } from './recovery-deps.js';
import { LockLost, RecoveryLock } from './recovery-lock.js';
import { tokenOf } from './redis-fill.js';
import { restoreCampaigns } from './restore-campaign.js';
import { UnsavedEntries } from './unsaved-entries.js';

/**
 * How often the worker checks Redis: while it is not in service, while an operator has to act, and while it is in
 * service. Then the gate reads the same every second, and closes when Redis has changed.
 */
const LOOK_SOON_MS = 50;
const LOOK_EVERY_MS = 500;
const LOOK_AT_OPEN_MS = 2_000;
/** A worker on a superseded server takes over when no process has used the newer server for this long. */
const TAKE_OVER_MS = 5_000;

const PROMISES_LOST =
  'Postgres was set back while Redis was filled with these campaigns: what they promised since the backup is lost';

/**
 * Keeps Redis and Postgres on one history. After every change of server it verifies that Redis has everything that
 * Postgres has, and everything that the processes have acknowledged. If so, a new history begins within milliseconds.
 * If not, the missing entries are written to Postgres, Redis is filled from Postgres, and then the new history begins.
 * Until then every call gets 503. A lock in Postgres makes sure that one worker does this at a time
 * (docs/decisions/0021-histories.md).
 */
export class Recovery {
  #stopping = false;
  #loop: Promise<void> | null = null;
  #wake: (() => void) | null = null;
  #numberReported = '';
  #behindReported = false;
  #supersededSince: number | null = null;
  /** When Redis was last checked (monotonic, ms), and the version of the map then. */
  #looked = { at: Number.NEGATIVE_INFINITY, version: 0 };
  readonly #lock: RecoveryLock;
  readonly #unsaved: UnsavedEntries;

  constructor(readonly deps: RecoveryDeps) {
    this.#lock = new RecoveryLock(deps.lockDatabase, deps.histories.shard);
    this.#unsaved = new UnsavedEntries(deps);
    deps.sale.scripts.redis.on('ready', () => this.#wake?.());
  }

  /** Starts checking Redis, for as long as the worker runs: Redis may lose its data without losing its connections. */
  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#loop;
  }

  /** Checks Redis once and recovers it if necessary. @returns whether Redis is in service. @throws EngineUnavailable */
  async ensureInService(): Promise<boolean> {
    const diagnosis = await this.#diagnose();
    if (diagnosis === null) return false;
    this.#reportBehind(diagnosis.kind === 'postgres_behind');
    if (diagnosis.kind !== 'superseded') this.#supersededSince = null;
    switch (diagnosis.kind) {
      case 'in_service':
      case 'postgres_behind':
        return true;
      case 'superseded':
        return this.#standAside();
      case 'recover':
        await this.#lock.hold((assertHeld) => this.#recover(assertHeld, false));
        return false;
      default:
        return diagnosis satisfies never;
    }
  }

  async #diagnose(): Promise<Diagnosis | null> {
    const look = await lookAt(this.deps);
    if (look.role === 'master') {
      await this.#keepInstallation(look);
      return diagnose(look);
    }
    this.deps.leaveServer('this Redis server is not the primary');
    return null;
  }

  /**
   * Handles a server that another server has superseded: saves the entries that only its journal has, then leaves it to
   * connect to the other server. Takes over if the other server is gone.
   * @returns false: Redis is not in service yet
   */
  async #standAside(): Promise<boolean> {
    const { watch, histories, processId, leaveServer, log } = this.deps;
    const look = await lookAt(this.deps);
    const latest = look.postgres.current;
    if (!latest || !look.epoch) return false;
    await this.#unsaved.saveFromJournal(look);
    this.#supersededSince ??= performance.now();
    if (await histories.isServed(latest.generation, processId, TAKE_OVER_MS)) this.#supersededSince = performance.now();
    if (performance.now() - this.#supersededSince < TAKE_OVER_MS) {
      leaveServer('another Redis server continues the journal');
      return false;
    }
    log.warn({ generation: latest.generation }, 'the Redis server of the latest history is gone; this one takes over');
    await this.#lock.hold((assertHeld) => this.#recover(assertHeld, true));
    await watch.beat();
    return false;
  }

  /**
   * Begins a new history.
   * @param takeOver begin it although another server has superseded this one
   */
  async #recover(assertHeld: () => void, takeOver: boolean): Promise<void> {
    const { deps } = this;
    const began = performance.now();
    const look = await lookAt(this.deps);
    const diagnosis: Diagnosis = takeOver
      ? { kind: 'recover', reason: 'the server of the latest history is gone', intact: false, behind: false }
      : diagnose(look);
    // Another worker may have recovered Redis already.
    if (look.role !== 'master' || diagnosis.kind !== 'recover') return;
    const isFirst = diagnosis.reason === FIRST_START;
    // Before the history begins, because it may have to wait for another shard.
    const elsewhere = diagnosis.intact ? new Set<ProductId>() : await this.#elsewhere(await this.#here());
    const removed = diagnosis.behind && look.epoch === null ? await this.#removed() : new Set<ProductId>();
    const generation = await nextGeneration(look, deps.nowMs, deps.histories.shard);
    const token = tokenOf(deps.processId, generation);
    const epoch: Epoch = { generation, server: look.server };
    // A server that is in use is taken out of service first, so that its data are final. Not while Postgres is behind:
    // if the recovery fails then, it must leave Redis as it is.
    const inUse = look.epoch?.server === look.server && !diagnosis.behind;
    if (inUse) await deps.fill.begin(token);
    await this.#unsaved.saveFromJournal(look);
    const { afterId, lastId, drainable } = await beginHistory(
      deps,
      { epoch, seen: look.postgres.cursor },
      diagnosis,
      assertHeld,
    );
    await this.#unsaved.untilReported(generation);
    assertHeld();
    // If Postgres was set back, an operator repairs it first. The entries wait until then.
    const missing = !diagnosis.behind && (await deps.recovered.hasPending());
    const keepsAll = diagnosis.intact && !missing && !inUse && (await this.#moved(diagnosis.behind)).size === 0;
    if (keepsAll && look.epoch !== null) {
      const { kind } = await deps.fill.beginHistory(look.epoch, epoch, lastId);
      if (kind !== 'begun')
        throw new LockLost('entries were appended meanwhile, or another worker has replaced the epoch');
      this.#report('verified', diagnosis.reason, generation, began, {});
    } else {
      if (!isFirst) {
        deps.log.warn({ reason: diagnosis.reason }, 'Redis is being recovered; until then every call gets 503');
      }
      if (!inUse) await this.#takeOutOfService(token, look.epoch, lastId);
      if (drainable) await deps.drain(afterId);
      const { campaigns, ...counts } = missing
        ? await applyRecovered(deps, [...(await deps.histories.opened()), { generation, afterId }], await this.#homes())
        : { campaigns: new Set<number>(), applied: 0, rejected: 0 };
      const moved = await this.#moved(diagnosis.behind);
      for (const [no, product] of await deps.sale.reader.directory())
        if (moved.has(product) || elsewhere.has(product)) await deps.fill.removeCampaign(token, no, product);
      const here = await this.#here();
      const concerned = diagnosis.intact
        ? here.filter(({ no, productId }) => campaigns.has(no) || removed.has(productId))
        : here.filter(({ productId }) => !elsewhere.has(productId));
      if (!diagnosis.intact) await deps.fill.resetJournal(token);
      await restoreCampaigns(deps, concerned, token, assertHeld);
      if (!diagnosis.intact && !isFirst) await this.#replaceLostMap();
      await this.#untilAllKnowMap(assertHeld);
      await deps.fill.end(token, epoch);
      if (removed.size > 0) deps.log.error({ campaigns: [...removed] }, PROMISES_LOST);
      this.#report('refilled', diagnosis.reason, generation, began, {
        campaigns: concerned.length,
        recovered: counts.applied,
        rejected: counts.rejected,
      });
    }
    await deps.histories.open(generation);
    await deps.watch.beat();
  }

  /**
   * Takes Redis out of service, and checks that no entry was appended meanwhile. A running server changes its id when
   * its first replica connects, and processes append until they notice that. Neither history would contain entries that
   * were appended after the new one was registered, so the recovery begins again.
   * @throws LockLost when entries were appended meanwhile
   */
  async #takeOutOfService(token: string, before: Epoch | null, lastId: string): Promise<void> {
    const { fill, journal } = this.deps;
    await fill.begin(token);
    if (before === null || (await journal.lastId()) === lastId) return;
    await fill.end(token, before);
    throw new LockLost('entries were appended meanwhile');
  }

  /**
   * The campaigns that Redis has, and that are in another shard: an interrupted move has left them, a history that was
   * never opened had removed them, or Redis was restored from an older snapshot.
   * @param behind whether Postgres was set back. Then Redis knows better where campaigns are
   */
  async #moved(behind: boolean): Promise<ReadonlySet<ProductId>> {
    const { campaigns, places, sale } = this.deps;
    if (behind || places.map.count === 1) return new Set();
    // In this order: Postgres has the place of each campaign that was loaded.
    const here = new Set((await sale.reader.directory()).values());
    const others = (await campaigns.toRestore()).filter((campaign) => !places.isIn(campaign));
    await places.map.read(this.deps.database);
    if (places.map.isSetBack) return new Set();
    return new Set(others.map(({ productId }) => productId).filter((product) => here.has(product)));
  }

  /** The campaigns that Postgres has in this shard. */
  async #here(): Promise<StoredCampaign[]> {
    return (await this.deps.campaigns.toRestore()).filter(this.deps.places.isIn);
  }

  /** Number of each campaign in another shard → that shard. Empty while Postgres lacks places that it had. */
  async #homes(): Promise<ReadonlyMap<number, number>> {
    const { campaigns, places } = this.deps;
    if (places.map.isSetBack) return new Map();
    const others = (await campaigns.toRestore()).filter((campaign) => !places.isIn(campaign));
    return new Map(others.map((campaign) => [campaign.no, places.map.homeOf(campaign)]));
  }

  /**
   * Those of these campaigns that another shard has, because Postgres was set back. A divided campaign is in several.
   * @throws EngineUnavailable when a shard cannot be asked
   */
  async #elsewhere(here: readonly StoredCampaign[]): Promise<ReadonlySet<ProductId>> {
    const { places } = this.deps;
    const whole = here.filter(({ buckets }) => buckets === 1);
    await places.map.read(this.deps.database);
    return places.map.isSetBack ? places.elsewhere(whole.map(({ productId }) => productId)) : new Set<ProductId>();
  }

  /**
   * The campaigns that no Redis has: their refill had removed them when Postgres was set back. Only Postgres has
   * something of them.
   * @throws EngineUnavailable when a shard cannot be asked
   */
  async #removed(): Promise<ReadonlySet<ProductId>> {
    const { reader } = this.deps.sale;
    const lacking: StoredCampaign[] = [];
    for (const campaign of await this.#here()) if (!(await reader.has(campaign.productId))) lacking.push(campaign);
    const elsewhere = lacking.length > 0 ? await this.#elsewhere(lacking) : new Set<ProductId>();
    return new Set(lacking.map(({ productId }) => productId).filter((product) => !elsewhere.has(product)));
  }

  /**
   * Waits until every live process has the map of Postgres. A move that was killed has not waited for that, and
   * processes would look here for the campaign that has moved.
   */
  async #untilAllKnowMap(assertHeld: () => void): Promise<void> {
    const { histories, processId, watch } = this.deps;
    for (;;) {
      // Of Postgres: this process may have a later one, which others cannot read since Postgres was set back.
      const { mapVersion } = await watch.beat();
      if (await histories.allKnowMap(mapVersion, processId, watch.aliveMs)) return;
      await sleep(LOOK_SOON_MS);
      assertHeld();
    }
  }

  /**
   * Gives the map of Postgres, from which this shard was filled, a version later than any before. Running processes may
   * remember a later map that neither Postgres nor Redis has any more, and would never take this one.
   * @throws EngineUnavailable when Postgres was set back and a shard cannot be asked
   */
  async #replaceLostMap(): Promise<void> {
    const { database, places } = this.deps;
    const { count: shards, version } = places.map;
    if (shards === 1) return;
    try {
      if (!(await places.isLaterInRedis())) await raiseMapVersion(database, version);
    } catch (error) {
      // A shard that is away may have a later map. Otherwise this one does not wait for it.
      if (!(error instanceof EngineUnavailable) || places.map.isSetBack) throw error;
    }
  }

  /**
   * Keeps the version of the map of campaigns in Redis, so that a Postgres that was set back is noticed. Not in a Redis
   * that was emptied, if Postgres lacks that version too: then the map is lost.
   */
  async #keepInstallation({ epoch, kept, postgres }: Awaited<ReturnType<typeof lookAt>>): Promise<void> {
    const { places, sale } = this.deps;
    const { count: shards, version } = places.map;
    const isLost = epoch === null && version > postgres.mapVersion;
    if (postgres.shards === shards && version > (kept?.version ?? 0) && !isLost)
      await keepInstallation(sale.scripts, { shards, version });
  }

  #report(kind: string, reason: string, generation: number, began: number, fields: Record<string, number>): void {
    const seconds = Math.round(performance.now() - began) / 1000;
    this.deps.metrics.recoveries.inc({ kind });
    const message =
      kind === 'verified' ? 'Redis was verified and is in service' : 'Redis was refilled and is in service';
    const level = reason === FIRST_START ? 'info' : 'warn';
    this.deps.log[level]({ reason, generation, ...fields, seconds }, message);
  }

  #reportBehind(behind: boolean): void {
    if (behind && !this.#behindReported) {
      this.deps.log.error(
        {},
        'Postgres lacks journal entries that it had committed: it was set back. The sale goes on. ' +
          'Run: npm run reconcile -- --after-restore --dry-run',
      );
    }
    this.#behindReported = behind;
  }

  #reportNumber({ message }: OtherNumber): void {
    if (message !== this.#numberReported) this.deps.log.error({}, message);
    this.#numberReported = message;
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      let served = false;
      let hasTime = false;
      this.#looked = { at: performance.now(), version: this.deps.places.map.version };
      try {
        served = await this.ensureInService();
      } catch (error) {
        // What an operator must do takes longer than a datastore that comes back.
        hasTime = error instanceof OtherNumber || !(error instanceof EngineUnavailable);
        if (error instanceof OtherNumber) this.#reportNumber(error);
        // The connections already log that an engine is away, so it is not logged here again every half second.
        if (error instanceof LockLost) this.deps.log.warn({ reason: error.message }, 'a recovery was given up');
        else if (!(error instanceof EngineUnavailable))
          this.deps.log.error({ err: error }, 'Redis could not be recovered; trying again');
      }
      do await this.#pause(served || hasTime ? untilNext(LOOK_EVERY_MS) : LOOK_SOON_MS);
      while (served && !this.#isDue());
    }
  }

  /** Whether Redis, which was in service, has to be checked again. */
  #isDue(): boolean {
    const { gate, places, watch } = this.deps;
    if (this.#stopping || !gate.isOpen || watch.state?.recovered) return true;
    const { at, version } = this.#looked;
    return version !== places.map.version || performance.now() - at > LOOK_AT_OPEN_MS - LOOK_EVERY_MS / 2;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
