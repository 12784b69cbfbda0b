import { connect, createServer, type Server, type Socket } from 'node:net';

type Pair = { client: Socket; server: Socket };

/**
 * A TCP proxy between one process and one server, so that this process alone can be cut off or sent to another server.
 */
export class Link {
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  #targetPort: number;
  #swallowing = false;
  #responsesToCut = 0;

  private constructor(server: Server, targetPort: number) {
    this.#server = server;
    this.#targetPort = targetPort;
  }

  static async open(targetPort: number): Promise<Link> {
    const server = createServer({ noDelay: true });
    const link = new Link(server, targetPort);
    server.on('connection', (client) => link.#join(client));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    return link;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  get targetPort(): number {
    return this.#targetPort;
  }

  /** New connections go to another server. Existing ones are cut, or stay where they are with `keep`. */
  switchTo(targetPort: number, { keep = false } = {}): void {
    this.#targetPort = targetPort;
    if (!keep) this.cut();
  }

  /** Closes every connection. */
  cut(): void {
    for (const pair of [...this.#pairs]) drop(pair);
  }

  /** Cuts the next `count` responses after their first half. */
  cutResponses(count: number): void {
    this.#responsesToCut = count;
  }

  /** Nothing passes in either direction, and no connection is closed: a network that loses packets. */
  swallow(): void {
    this.#swallowing = true;
  }

  /** Ends what `swallow` and `cutResponses` began. Connections whose bytes were swallowed are closed. */
  heal(): void {
    this.#responsesToCut = 0;
    if (!this.#swallowing) return;
    this.#swallowing = false;
    this.cut();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket): void {
    const server = connect({ port: this.#targetPort, host: '127.0.0.1', noDelay: true });
    const pair = { client, server };
    this.#pairs.add(pair);
    client.on('data', (chunk) => {
      if (!this.#swallowing) server.write(chunk);
    });
    server.on('data', (chunk) => this.#respond(pair, chunk));
    for (const socket of [client, server]) {
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        this.#pairs.delete(pair);
        if (!this.#swallowing) drop(pair);
      });
    }
  }

  #respond(pair: Pair, chunk: Buffer): void {
    if (this.#swallowing) return;
    if (this.#responsesToCut === 0 || chunk.length < 2) {
      pair.client.write(chunk);
      return;
    }
    this.#responsesToCut -= 1;
    pair.client.end(chunk.subarray(0, Math.floor(chunk.length / 2)));
    pair.server.destroy();
  }
}

function drop({ client, server }: Pair): void {
  client.destroy();
  server.destroy();
}
