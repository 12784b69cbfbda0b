import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from '../../../shared/config/limits.js';
import type { Log } from '../../../shared/observability/log.js';
import type { Metrics } from '../../../shared/observability/metrics.js';
import { idleSince } from '../../http/pipeline.js';
import { wideNetworkOf } from '../caller/address.js';

export type RoomOptions = {
  /** Connections of the process. */
  capacity: number;
  /** How many connections are closed at once when there is no room: so many new ones cost one look. */
  batch: number;
  keepAlive: { ms: number; fullMs: number };
  networkOf: (socket: Socket) => string;
  /** Since when a connection has no request in service (monotonic, ms); null = it has one, or is a WebSocket. */
  idleSince: (socket: Socket) => number | null;
  /** Called when connections were closed for others, or a new one was refused. */
  onFull: (closed: number, network: string) => void;
};

/** Share of the capacity above which idle connections are kept for a shorter time. */
const CROWDED = 0.75;

/**
 * Shares the connections of a process among the networks of their clients. While there is room, a network may have any
 * number. When there is none, the network that has most loses those that were idle for longest, or, if it has none that
 * is idle and more than the network of the new connection, its oldest. So no client is kept out by connections that
 * others only hold.
 */
export class ConnectionRoom {
  /** The connections of each network, oldest first. */
  readonly #byNetwork = new Map<string, Set<Socket>>();
  #open = 0;

  constructor(
    readonly server: Server,
    readonly options: RoomOptions,
  ) {
    server.prependListener('connection', (socket) => this.#admit(socket));
  }

  #admit(socket: Socket): void {
    const network = this.options.networkOf(socket);
    if (this.#open >= this.options.capacity && !this.#makeRoom(network)) {
      this.options.onFull(0, network);
      socket.destroy();
      return;
    }
    const own = this.#byNetwork.get(network) ?? new Set();
    this.#byNetwork.set(network, own.add(socket));
    this.#open += 1;
    this.#setKeepAlive();
    socket.once('close', () => this.#forget(socket, network));
  }

  #forget(socket: Socket, network: string): void {
    const own = this.#byNetwork.get(network);
    if (!own?.delete(socket)) return;
    this.#open -= 1;
    if (own.size === 0) this.#byNetwork.delete(network);
    this.#setKeepAlive();
  }

  /** Its `close` comes later, and new connections may come before. */
  #close(socket: Socket, network: string): void {
    this.#forget(socket, network);
    socket.destroy();
  }

  /** Node reads it after each response. */
  #setKeepAlive(): void {
    const { capacity, keepAlive } = this.options;
    this.server.keepAliveTimeout = this.#open > CROWDED * capacity ? keepAlive.fullMs : keepAlive.ms;
  }

  /** @returns whether the new connection may stay */
  #makeRoom(newcomer: string): boolean {
    const [network, sockets] = this.#largest();
    const { batch, idleSince, onFull } = this.options;
    const idle = [...sockets].flatMap((socket) => {
      const since = idleSince(socket);
      return since === null ? [] : [{ socket, since }];
    });
    const excess = sockets.size - (this.#byNetwork.get(newcomer)?.size ?? 0);
    if (idle.length === 0 && excess <= 0) return false;
    // No more than half, so that a network of many shoppers does not lose all of their connections at once.
    const most = Math.max(1, Math.min(batch, Math.floor((idle.length || excess) / 2)));
    const oldest =
      idle.length > 0 ? idle.toSorted((a, b) => a.since - b.since).map(({ socket }) => socket) : [...sockets];
    const closed = oldest.slice(0, most);
    for (const socket of closed) this.#close(socket, network);
    onFull(closed.length, network);
    return true;
  }

  #largest(): [string, ReadonlySet<Socket>] {
    let largest: [string, ReadonlySet<Socket>] = ['', new Set()];
    for (const entry of this.#byNetwork) if (entry[1].size > largest[1].size) largest = entry;
    return largest;
  }
}

const LOG_EVERY_MS = 60_000;

/**
 * Shares the connections of the listener for shoppers. Behind proxies they are all of these, and the longest idle ones
 * are closed.
 */
export function shareConnections(server: Server, { log, metrics }: { log: Log; metrics: Metrics }): void {
  const capacity = connectionsWithin(LIMITS.http.connections, LIMITS.http.descriptorsReserved);
  if (capacity < LIMITS.http.connections)
    log.warn(
      { connections: capacity, wanted: LIMITS.http.connections },
      'the limit of descriptors allows fewer connections',
    );
  // Beyond it Node refuses connections before anyone can make room for them.
  server.maxConnections = capacity + LIMITS.http.connectionsClosed;
  let loggedAt = Number.NEGATIVE_INFINITY;
  new ConnectionRoom(server, {
    capacity,
    batch: LIMITS.http.connectionsClosed,
    keepAlive: { ms: LIMITS.http.keepAliveTimeoutMs, fullMs: LIMITS.http.keepAliveCrowdedMs },
    networkOf: wideNetworkOf,
    idleSince,
    onFull: (closed, network) => {
      metrics.limited.inc({ policy: 'connections' }, Math.max(1, closed));
      if (performance.now() - loggedAt < LOG_EVERY_MS) return;
      loggedAt = performance.now();
      log.warn({ network, closed, capacity }, 'there is no room for connections');
    },
  });
}

/**
 * How many connections this process may have, so that the engines, the operators' port and files have descriptors too.
 * @param wanted number of connections
 * @param reserved descriptors for everything else
 */
export function connectionsWithin(wanted: number, reserved: number, limit = descriptorLimit()): number {
  return Math.max(1, Math.min(wanted, limit - reserved));
}

/** The limit of descriptors of this process; infinite if it is unknown. */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
