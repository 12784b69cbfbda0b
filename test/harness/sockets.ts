import { WebSocket } from 'ws';
import { atEnd } from './cleanup.js';
import { until } from './until.js';

export type Frame = { type: string; seq: number; time: string } & Record<string, unknown>;

/** A shopper's socket: what it was sent, in order, and how it ended. */
export class ShopperSocket {
  readonly frames: Frame[] = [];
  /** null while it is open. */
  closeCode: number | null = null;
  pings = 0;
  readonly #socket: WebSocket;

  /** @param silent does not reply to pings, like a laptop with a closed lid */
  constructor(url: string, ticket: string | null, { silent = false } = {}) {
    const query = ticket === null ? '' : `?ticket=${encodeURIComponent(ticket)}`;
    this.#socket = new WebSocket(`${url.replace('http', 'ws')}/flash-sale/ws${query}`, { autoPong: !silent });
    this.#socket.on('message', (data) => this.frames.push(JSON.parse(String(data)) as Frame));
    this.#socket.on('ping', () => {
      this.pings += 1;
    });
    this.#socket.on('close', (code) => {
      this.closeCode = code;
    });
    this.#socket.on('error', () => {
      // The close code is the result.
    });
    atEnd('a socket', () => this.#socket.terminate());
  }

  async opened(): Promise<this> {
    await until('the socket is open', () => this.#socket.readyState !== WebSocket.CONNECTING);
    return this;
  }

  /** Sends a frame as JSON, a text or bytes as they are. */
  send(frame: object | string | Buffer): void {
    const raw = typeof frame === 'string' || Buffer.isBuffer(frame);
    this.#socket.send(raw ? frame : JSON.stringify(frame), { binary: Buffer.isBuffer(frame) });
  }

  /** The first frame of this type that came or will come. */
  frame(type: string): Promise<Frame> {
    return until(`a frame ${type} comes`, () => this.frames.find((frame) => frame.type === type));
  }

  ofType(type: string): Frame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  /** The code it was closed with. */
  closed(): Promise<number> {
    return until('the socket is closed', () => this.closeCode);
  }

  hangUp(): Promise<number> {
    this.#socket.close();
    return this.closed();
  }
}

/** Opens a socket with the ticket in its query; without a ticket it has yet to subscribe. */
export function openSocket(url: string, ticket: string | null, options?: { silent?: boolean }): Promise<ShopperSocket> {
  return new ShopperSocket(url, ticket, options).opened();
}
