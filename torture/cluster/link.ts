import { connect, createServer, type Server, type Socket } from 'node:net';

type Pair = { client: Socket; server: Socket };

/**
 * A TCP proxy between one process and one server, so that this process alone can be cut off or sent to another server.
 * Fault tests have theirs in a process of its own (test/harness/proxy.ts).
 */
export class Link {
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  #targetPort: number;
  #swallowing = false;
  #responsesToCut = 0;
  #textToLose: string | null = null;
  readonly #delayMs: number;

  private constructor(server: Server, targetPort: number, delayMs: number) {
    this.#server = server;
    this.#targetPort = targetPort;
    this.#delayMs = delayMs;
  }

  /** @param delayMs how long it holds back what passes, in each direction: the distance of another region */
  static async open(targetPort: number, delayMs = 0): Promise<Link> {
    const server = createServer({ noDelay: true });
    const link = new Link(server, targetPort, delayMs);
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
    for (const pair of [...this.#pairs]) this.#drop(pair);
  }

  /** Cuts the next `count` responses after their first half. */
  cutResponses(count: number): void {
    this.#responsesToCut = count;
  }

  /** Loses the next response that contains a text, and closes its connection: the request was served without one. */
  loseResponseWith(text: string): void {
    this.#textToLose = text;
  }

  /**
   * Nothing passes in either direction, and no connection is closed: a network that loses packets. New connections get
   * no response.
   */
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
    client.on('data', (chunk) => this.#later(() => this.#pass(chunk, server)));
    server.on('data', (chunk) => this.#respond(pair, chunk));
    for (const socket of [client, server]) {
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        if (this.#swallowing) this.#pairs.delete(pair);
        // After what is still held back.
        else this.#later(() => this.#drop(pair));
      });
    }
  }

  #respond(pair: Pair, chunk: Buffer): void {
    if (this.#swallowing) return;
    const isLost = this.#textToLose !== null && chunk.includes(this.#textToLose);
    if (isLost) {
      this.#textToLose = null;
      this.#drop(pair);
    } else if (this.#responsesToCut === 0 || chunk.length < 2) {
      this.#later(() => this.#pass(chunk, pair.client));
    } else {
      this.#responsesToCut -= 1;
      pair.client.end(chunk.subarray(0, Math.floor(chunk.length / 2)));
      pair.server.destroy();
    }
  }

  #pass(chunk: Buffer, to: Socket): void {
    if (!this.#swallowing && to.writable) to.write(chunk);
  }

  #later(work: () => void): void {
    if (this.#delayMs === 0) work();
    else setTimeout(work, this.#delayMs);
  }

  #drop(pair: Pair): void {
    this.#pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }
}
