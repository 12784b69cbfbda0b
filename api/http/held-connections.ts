import type { Socket } from 'node:net';

/**
 * The connections of one network. While it has no room for further requests, connections are held: they are not read.
 * What is not read takes no time of the event loop and no memory. 5,000 connections with eight requests each would
 * otherwise keep 40,000 requests in memory.
 *
 * A client that has one request on its way does not wait for those that have several: the two kinds take turns.
 */
export class NetworkConnections {
  /** Number of connections, held or not. */
  open = 0;
  /** Number of requests that were read and wait for earlier ones of their connection. */
  waiting = 0;
  /** Held connections, those that are held for longest first. */
  readonly #single = new Set<Socket>();
  readonly #several = new Set<Socket>();
  #wasSeveral = false;
  /** Connections that are read and have no request now, but had several at once before. */
  readonly idle = new Set<Socket>();

  constructor(readonly name: string) {}

  /** Number of connections that are held. */
  get held(): number {
    return this.#single.size + this.#several.size;
  }

  /** @param sentSeveral whether the connection had more than one request on its way when it was read last */
  hold(socket: Socket, sentSeveral: boolean): void {
    (sentSeveral ? this.#several : this.#single).add(socket);
  }

  /** Forgets a connection, whether it was held or idle. */
  remove(socket: Socket): void {
    this.idle.delete(socket);
    this.#single.delete(socket);
    this.#several.delete(socket);
  }

  /** Removes the connection that is held for longest, of each kind in turn; undefined = none is held. */
  next(): Socket | undefined {
    this.#wasSeveral = this.#single.size === 0 || (!this.#wasSeveral && this.#several.size > 0);
    const [socket] = this.#wasSeveral ? this.#several : this.#single;
    if (socket !== undefined) this.remove(socket);
    return socket;
  }
}
