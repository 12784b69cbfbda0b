import { connect, createServer, type Server, type Socket } from 'node:net';
import { atEnd } from './cleanup.js';

/**
 * A TCP proxy in front of an engine that can stop forwarding without closing anything: a network that swallows packets.
 */
export class EngineProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #swallowing = false;
  #losing: string | null = null;
  #targetPort: number;

  private constructor(
    targetPort: number,
    server: Server,
    readonly delayMs: number,
  ) {
    this.#targetPort = targetPort;
    this.#server = server;
  }

  /** @param delayMs how long it holds back what passes, in each direction: the distance of another region */
  static async before(targetPort: number, delayMs = 0): Promise<EngineProxy> {
    const server = createServer();
    const proxy = new EngineProxy(targetPort, server, delayMs);
    server.on('connection', (socket) => proxy.#join(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    atEnd('the proxy', () => proxy.close());
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** New connections go to another engine; those that exist stay, as behind the address of a managed service. */
  moveTo(targetPort: number): void {
    this.#targetPort = targetPort;
  }

  /** From now on nothing passes, in both directions, and new connections get no answer. */
  swallow(): void {
    this.#swallowing = true;
  }

  /** What was swallowed is gone, as are its connections; new ones pass. */
  forward(): void {
    this.#swallowing = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Loses the next response that contains a text, and closes its connection: the request was served without one. */
  loseResponseWith(text: string): void {
    this.#losing = text;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(chunk: Buffer, to: Socket): void {
    if (!this.#swallowing && to.writable) to.write(chunk);
  }

  #join(client: Socket): void {
    const engine = connect(this.#targetPort, '127.0.0.1');
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (chunk) => {
        if (from === engine && this.#losing !== null && chunk.includes(this.#losing)) {
          this.#losing = null;
          client.destroy();
          return;
        }
        if (this.delayMs === 0) this.#pass(chunk, to);
        else setTimeout(() => this.#pass(chunk, to), this.delayMs);
      });
      from.on('error', () => from.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        if (this.#swallowing) return;
        if (this.delayMs === 0) to.destroy();
        // After what is still held back.
        else setTimeout(() => to.destroy(), this.delayMs);
      });
    }
  }
}
