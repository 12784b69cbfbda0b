import { connect, createServer, type Server, type Socket } from 'node:net';
import { atEnd } from './cleanup.js';

/**
 * A TCP proxy in front of an engine that can stop forwarding without closing anything: a network that swallows packets.
 */
export class EngineProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #swallowing = false;
  #targetPort: number;

  private constructor(targetPort: number, server: Server) {
    this.#targetPort = targetPort;
    this.#server = server;
  }

  static async before(targetPort: number): Promise<EngineProxy> {
    const server = createServer();
    const proxy = new EngineProxy(targetPort, server);
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

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket): void {
    const engine = connect(this.#targetPort, '127.0.0.1');
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (chunk) => {
        if (!this.#swallowing) to.write(chunk);
      });
      from.on('error', () => from.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        if (!this.#swallowing) to.destroy();
      });
    }
  }
}
