import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';

/** What the process of the proxies is to do; `proxy` is the number of one of them. */
export type ProxyOrder = { proxy: number } & (
  | { what: 'open'; targetPort: number; delayMs: number }
  | { what: 'switch'; targetPort: number; keep: boolean }
  | { what: 'lose'; text: string }
  | { what: 'swallow' | 'heal' | 'cut' | 'close' }
);

/**
 * A TCP proxy in front of an engine (torture/cluster/link.ts), in a process of its own, because a crowd or a log that
 * is read in the test would hold its packets back. Each method returns when the proxy does what was asked for.
 */
export class EngineProxy {
  private constructor(
    readonly port: number,
    readonly number: number,
    readonly host: ProxyHost,
  ) {}

  /** @param delayMs how long it holds back what passes, in each direction: the distance of another region */
  static async before(targetPort: number, delayMs = 0): Promise<EngineProxy> {
    const host = ProxyHost.ofThisFile();
    const number = host.nextNumber();
    return new EngineProxy(await host.order({ proxy: number, what: 'open', targetPort, delayMs }), number, host);
  }

  /** New connections go to another engine. Existing ones are cut, or stay with `keep`, as behind a managed service. */
  async switchTo(targetPort: number, { keep = false } = {}): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'switch', targetPort, keep });
  }

  /** From now on nothing passes, in both directions, and new connections get no answer. */
  async swallow(): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'swallow' });
  }

  /** What was swallowed is gone, as are its connections; new ones pass. */
  async heal(): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'heal' });
  }

  /** Closes every connection. */
  async cut(): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'cut' });
  }

  /** Loses the next response that contains a text, and closes its connection: the request was served without one. */
  async loseResponseWith(text: string): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'lose', text });
  }

  async close(): Promise<void> {
    await this.host.order({ proxy: this.number, what: 'close' });
  }
}

/** The process of the proxies of a test file. */
class ProxyHost {
  static #ofThisFile: ProxyHost | null = null;
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (port: number) => void; reject: (error: Error) => void }>();
  #proxies = 0;
  #orders = 0;

  /** Starts the process with the first proxy; ended with the test file, or by `runCleanups`. */
  static ofThisFile(): ProxyHost {
    if (ProxyHost.#ofThisFile) return ProxyHost.#ofThisFile;
    const host = new ProxyHost();
    ProxyHost.#ofThisFile = host;
    atEnd('the process of the proxies', () => {
      ProxyHost.#ofThisFile = null;
      return host.#end();
    });
    return host;
  }

  private constructor() {
    const program = join(projectRoot(), 'test/harness/proxy-process.mjs');
    // Without the options of Jest, and with its own channel for orders.
    const { NODE_OPTIONS: _, ...env } = process.env;
    this.#process = spawn(process.execPath, [program], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#process.on('message', (message) => {
      const { number, port, problem } = message as { number: number; port: number; problem?: string };
      const waiting = this.#waiting.get(number);
      this.#waiting.delete(number);
      if (problem === undefined) waiting?.resolve(port);
      else waiting?.reject(new Error(problem));
    });
    this.#process.on('exit', () => this.#fail(new Error('the process of the proxies has ended')));
    this.#process.on('error', (error) => this.#fail(error));
  }

  nextNumber(): number {
    this.#proxies += 1;
    return this.#proxies;
  }

  /** @returns the port of a new proxy, else 0 */
  order(order: ProxyOrder): Promise<number> {
    this.#orders += 1;
    const number = this.#orders;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#process.send({ number, order }, (error) => error && this.#fail(error));
    });
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  async #end(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.disconnect();
    await ended;
  }
}
