import { createConnection, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, type Redis, type RedisOptions } from 'ioredis';
import type { HostAndPort } from './redis-target.js';

/** Pause after no node of the cluster replied or had a primary for the slot. */
const ASK_AGAIN_MS = 100;
/** A map of slots this young is not read again: the connections of a process reconnect together. */
const MAP_FRESH_MS = 50;

/** A row of CLUSTER SLOTS: first and last slot, then the primary as address, port, id and more. */
type SlotsRow = [first: number, last: number, primary: [host: string | null, port: number, ...unknown[]], ...unknown[]];
type SlotMap = { rows: SlotsRow[]; from: HostAndPort };

/** Knows the nodes of a Redis Cluster, and finds the primary of a slot. One per process. */
export class ClusterNodes {
  /** The nodes that were configured, and then those that the cluster has named. */
  #known: HostAndPort[];
  #asking: Promise<SlotMap | null> | null = null;

  constructor(
    readonly seeds: readonly HostAndPort[],
    /** Makes a connection to a node that does not reconnect. */
    readonly connectTo: (node: HostAndPort) => Redis,
  ) {
    this.#known = [...seeds];
  }

  /** Returns the address of the primary of a slot; null = no node that replies knows one. */
  async primaryOf(slot: number): Promise<HostAndPort | null> {
    const map = await this.#read();
    const row = map?.rows.find(([first, last]) => slot >= first && slot <= last);
    if (!map || !row) return null;
    const [host, port] = row[2];
    // A node that does not know its own address leaves it empty.
    return { host: host && host !== '?' ? host : map.from.host, port };
  }

  #read(): Promise<SlotMap | null> {
    this.#asking ??= this.#askAny().finally(() => {
      setTimeout(() => {
        this.#asking = null;
      }, MAP_FRESH_MS).unref();
    });
    return this.#asking;
  }

  /** Asks one node after the other. The one that replied goes first next time, the others last. */
  async #askAny(): Promise<SlotMap | null> {
    for (const node of [...this.#known]) {
      const rows = await this.#ask(node).catch(() => null);
      if (!rows || rows.length === 0) {
        this.#known = [...this.#known.filter((known) => known !== node), node];
        continue;
      }
      this.#learn(node, rows);
      return { rows, from: node };
    }
    return null;
  }

  async #ask(node: HostAndPort): Promise<SlotsRow[]> {
    const redis = this.connectTo(node);
    redis.on('error', () => {});
    try {
      await redis.connect();
      return (await redis.cluster('SLOTS')) as unknown as SlotsRow[];
    } finally {
      redis.disconnect();
    }
  }

  #learn(from: HostAndPort, rows: readonly SlotsRow[]): void {
    const named = rows.flatMap(([, , ...nodes]) =>
      (nodes as SlotsRow[2][]).map(([host, port]) => ({ host: host && host !== '?' ? host : from.host, port })),
    );
    const all = [from, ...named, ...this.seeds];
    this.#known = all.filter((node, i) => all.findIndex((other) => isSame(node, other)) === i);
  }
}

const isSame = (one: HostAndPort, other: HostAndPort): boolean => one.host === other.host && one.port === other.port;

/**
 * Makes the class by which ioredis connects to the primary of one slot, and finds it again at every reconnect. Each
 * connection thus has one server, like any other, and the gate can verify that server (decision 41).
 */
export function clusterConnector(nodes: ClusterNodes, slot: number): NonNullable<RedisOptions['Connector']> {
  return class ClusterConnector extends AbstractConnector {
    readonly #options: RedisOptions;

    constructor(options: unknown) {
      super((options as RedisOptions).disconnectTimeout ?? 0);
      this.#options = options as RedisOptions;
    }

    /** Never rejects while the connection is wanted: ioredis would end it for good. */
    override async connect(): Promise<Socket> {
      this.connecting = true;
      for (;;) {
        const primary = await nodes.primaryOf(slot);
        if (!this.connecting) throw new Error('Connection is closed.');
        if (primary === null) {
          await sleep(ASK_AGAIN_MS);
          continue;
        }
        const socket = this.#options.tls ? connectTls({ ...this.#options.tls, ...primary }) : createConnection(primary);
        socket.once('error', (error) => {
          this.firstError = error;
        });
        this.stream = socket;
        return socket;
      }
    }
  } as NonNullable<RedisOptions['Connector']>;
}
