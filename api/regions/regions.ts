import { setTimeout as sleep } from 'node:timers/promises';
import type { RegionsConfig } from '../../shared/config/regions.js';
import { layoutText, type RegionName } from '../../shared/domain/regions.js';
import type { Log } from '../../shared/observability/log.js';
import type { Database } from '../../shared/postgres/pool.js';
import { campaignsAfter, learnEpochs, type RegionState, readRegionState } from '../../shared/postgres/region-state.js';
import { every } from './every.js';
import { type BeatData, beatContract, beatData, EPOCH_HEADER, KEY_HEADER, REGION_HEADER } from './region.contract.js';
import { RegionDirectory } from './region-directory.js';
import { type LinkLimits, RegionLink } from './region-link.js';

export type RegionsDeps = {
  config: RegionsConfig;
  database: Database;
  log: Log;
  limits: LinkLimits & { beatMs: number; campaignsPerBeat: number; campaignsAgain: number };
};

/** Between two reads that requests ask for. */
const READ_PAUSE_MS = 20;

/** A region under another installation than the one that replied. It counts as unreachable. */
type Peer = {
  link: RegionLink;
  epoch: number | null;
  problem: string | null;
  asked: boolean;
  /** When it replied last to a beat, by the monotonic clock; null = never. */
  repliedAtMs: number | null;
};

/**
 * This installation as one of several regions: whether it owns its region, the links to the others, and what they have.
 * An installation owns its region until it learns that another one has a higher epoch. A process that starts serves
 * nothing until another region has replied, because a lost region may come back; afterwards a cut link does not stop it
 * (decision 49).
 */
export class Regions {
  readonly directory: RegionDirectory;
  readonly layout: string;
  readonly #peers: ReadonlyMap<RegionName, Peer>;
  readonly #learnt = new Map<RegionName, number>();
  /** What Postgres has said last; null = nothing yet. */
  #state: Pick<RegionState, 'region' | 'epoch'> | null = null;
  readonly #stopped = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #wasFenced = false;
  readonly #disputed = new Set<string>();
  /** The latest read of `readAgain`, and the one that has not begun; null = none waits. */
  #last: Promise<unknown> = Promise.resolve();
  #next: Promise<boolean> | null = null;

  constructor(readonly deps: RegionsDeps) {
    const { config, limits } = deps;
    this.layout = layoutText(config.layout);
    this.directory = new RegionDirectory(config.own, config.layout.names);
    this.#peers = new Map(
      config.peers.map(({ name, url }) => [
        name,
        {
          link: new RegionLink(name, url, limits),
          ...{ epoch: null, problem: 'it has not replied yet', asked: false, repliedAtMs: null },
        },
      ]),
    );
  }

  get own(): RegionName {
    return this.deps.config.own;
  }

  /** The epoch of this installation; null = it has not joined its region, or Postgres has not been read yet. */
  get epoch(): number | null {
    return this.#state?.region === this.own ? this.#state.epoch : null;
  }

  /** Why this installation may not decide about its region; null = it may. */
  get refusal(): string | null {
    if (this.#state === null) return 'Postgres has not said yet which region this installation is';
    if (this.#state.region === null) return 'it has not joined: run npm run regions -- join';
    if (this.#state.region !== this.own) return `it has joined as ${this.#state.region}, and REGION is ${this.own}`;
    const owner = this.#learnt.get(this.own) ?? 0;
    if (owner > (this.epoch ?? 0)) return `another installation owns ${this.own} since epoch ${owner}`;
    const peers = [...this.#peers.values()];
    if (peers.some(({ asked }) => !asked)) return 'the other regions are being asked';
    if (!peers.some(({ repliedAtMs }) => repliedAtMs !== null)) return 'no other region has replied since the start';
    return null;
  }

  /** The link to a region; null = it cannot be reached, or what replies there does not own it. */
  linkTo(region: RegionName): RegionLink | null {
    const peer = this.#peers.get(region);
    return peer?.problem === null && peer.link.isUp ? peer.link : null;
  }

  /** The state of the other regions. `problem`: null = it can be called; `replyAgeSeconds`: null = it never replied. */
  get others(): {
    region: RegionName;
    epoch: number | null;
    problem: string | null;
    inFlight: number;
    replyAgeSeconds: number | null;
  }[] {
    return [...this.#peers].map(([region, { epoch, problem, link, repliedAtMs }]) => ({
      ...{ region, epoch, problem, inFlight: link.inFlight },
      replyAgeSeconds: repliedAtMs === null ? null : (performance.now() - repliedAtMs) / 1000,
    }));
  }

  epochs(): Record<RegionName, number> {
    return Object.fromEntries(this.#learnt);
  }

  /** The highest epoch of a region that this process has learnt of; 0 = none. */
  epochOf(region: RegionName): number {
    return this.#learnt.get(region) ?? 0;
  }

  /** The headers of every call to a region. */
  headersTo(region: RegionName): Record<string, string> {
    return {
      [REGION_HEADER]: this.own,
      [KEY_HEADER]: this.deps.config.keys[0]?.secret ?? '',
      [EPOCH_HEADER]: String(this.epochOf(region)),
    };
  }

  /** Learns epochs from another region. Other processes of this installation read them from Postgres. */
  async learn(epochs: Readonly<Record<RegionName, number>>): Promise<void> {
    const higher = Object.entries(epochs).filter(
      ([region, epoch]) => this.deps.config.layout.names.includes(region) && epoch > this.epochOf(region),
    );
    if (higher.length === 0) return;
    // In memory first: it takes effect at once, and while Postgres is away.
    for (const [region, epoch] of higher) this.#learnt.set(region, epoch);
    this.#noteFence();
    await learnEpochs(this.deps.database, new Map(higher)).catch((error: unknown) =>
      this.deps.log.warn({ reason: String(error) }, 'epochs of regions were not stored'),
    );
  }

  /** Starts the beats. It does not wait for Postgres or for another region. */
  start(): void {
    const { beatMs } = this.deps.limits;
    this.#running = Promise.all([
      every(beatMs, this.#stopped.signal, async () => void (await this.#readOwn())),
      ...[...this.#peers].map(([region, peer]) => every(beatMs, this.#stopped.signal, () => this.#beat(region, peer))),
    ]);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    for (const { link } of this.#peers.values()) link.close();
    await this.#running;
  }

  /**
   * Reads again which campaigns this region has. Calls at the same time share a read, and reads have a pause between
   * them, because anybody may ask for products that do not exist.
   * @returns whether what was committed before the call is known now
   */
  async readAgain(): Promise<boolean> {
    this.#next ??= (async () => {
      await this.#last.catch(() => {});
      await sleep(READ_PAUSE_MS);
      this.#next = null;
      return this.#readOwn();
    })();
    this.#last = this.#next;
    return this.#next;
  }

  /**
   * Reads what Postgres has; while it is away, this process goes on with what it knows.
   * @returns whether it was read
   */
  async #readOwn(): Promise<boolean> {
    const { database, limits } = this.deps;
    try {
      const { learnt, ...state } = await readRegionState(database);
      this.#state = state;
      for (const [region, epoch] of learnt) if (epoch > this.epochOf(region)) this.#learnt.set(region, epoch);
      // What was learnt while Postgres was away.
      const unstored = [...this.#learnt].filter(([region, epoch]) => epoch > (learnt.get(region) ?? 0));
      if (unstored.length > 0) await learnEpochs(database, new Map(unstored));
      this.#noteFence();
      const found = await campaignsAfter(database, this.#askedFrom(this.own), limits.campaignsPerBeat);
      this.directory.add(this.own, found, found.length < limits.campaignsPerBeat);
      return true;
    } catch {
      // The pool has logged the reason.
      return false;
    }
  }

  #noteFence(): void {
    const isFenced = this.epoch !== null && this.epochOf(this.own) > this.epoch;
    if (isFenced && !this.#wasFenced)
      this.deps.log.error(
        { region: this.own, epoch: this.epoch, owner_epoch: this.epochOf(this.own) },
        'another installation owns this region now; this one refuses to serve it',
      );
    this.#wasFenced = isFenced;
  }

  /** Two creations at the same moment do not see each other. */
  #noteDispute(product: string, region: RegionName): void {
    if (this.#disputed.has(product) || !this.directory.isDisputed(product)) return;
    this.#disputed.add(product);
    this.deps.log.error(
      { product, region },
      'two regions sell a product without the same `regions`: a user can get a unit in each; close one of the campaigns',
    );
  }

  #askedFrom(region: RegionName): number {
    return Math.max(0, this.directory.lastNo(region) - this.deps.limits.campaignsAgain);
  }

  async #beat(region: RegionName, peer: Peer): Promise<void> {
    const before = peer.problem;
    peer.problem = await this.#ask(region, peer);
    peer.asked = true;
    if (before !== peer.problem)
      this.deps.log[peer.problem === null ? 'info' : 'warn'](
        { region, ...(peer.problem === null ? {} : { reason: peer.problem }) },
        peer.problem === null ? 'a region can be called' : 'a region cannot be called; its codes get 503 here',
      );
  }

  /** @returns why the region cannot be called; null = it can */
  async #ask(region: RegionName, peer: Peer): Promise<string | null> {
    const { limits } = this.deps;
    const json = {
      region: this.own,
      layout: this.layout,
      epochs: this.epochs(),
      campaigns_after: this.#askedFrom(region),
    };
    let data: BeatData;
    try {
      const headers = { ...this.headersTo(region), 'content-type': 'application/json' };
      const { method, path } = beatContract;
      const response = await peer.link.beat({ method, path, headers, body: JSON.stringify(json) });
      if (response.status !== 200) {
        peer.link.down();
        return `it replied with ${response.status}`;
      }
      data = beatData.parse((JSON.parse(response.text) as { data: unknown }).data);
    } catch (error) {
      peer.link.down();
      return error instanceof Error ? error.message : String(error);
    }
    if (data.region !== region) return `its URL leads to ${data.region}`;
    if (data.layout !== this.layout) return 'its REGIONS or REGION_CODE_PREFIXES are others than here';
    peer.epoch = data.epoch;
    await this.learn(data.epochs);
    peer.repliedAtMs = performance.now();
    const found = data.campaigns.map(({ product_id, ...campaign }) => ({ ...campaign, productId: product_id }));
    this.directory.add(region, found, found.length < limits.campaignsPerBeat);
    for (const { productId } of found) this.#noteDispute(productId, region);
    if (data.epoch === null) return 'it has not joined its region';
    if (data.epoch < this.epochOf(region))
      return `it has epoch ${data.epoch}, and the owner has epoch ${this.epochOf(region)}`;
    return data.serves ? null : 'it does not serve its region';
  }
}
