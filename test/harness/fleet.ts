import { expect } from '@jest/globals';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from './service.js';

type Api = { process: ServiceProcess; url: string };

/**
 * Several APIs and workers that are replaced one by one, as an orchestrator does it: the new process is ready before
 * the old one leaves, and an API gets no new requests when it is asked to stop.
 */
export class Fleet {
  readonly #apis: Api[] = [];
  readonly #workers: ServiceProcess[] = [];
  /** APIs that are asked to stop, and that clients with an open connection may still call. */
  readonly #leaving = new Set<string>();
  #next = 0;

  constructor(readonly env: NodeJS.ProcessEnv) {}

  /** @param root the folder of the revision */
  async startApi(root?: string): Promise<Api> {
    const api = await startApiProcess(this.env, true, root);
    this.#apis.push(api);
    return api;
  }

  async startWorker(root?: string): Promise<void> {
    this.#workers.push(await startWorkerProcess(this.env, root));
  }

  /** An API in service, another one with each call. */
  readonly target = (): string => this.#pick(this.#apis.map(({ url }) => url));

  /** As `target`, or one that is stopping: what a client calls that keeps its connections until they are closed. */
  readonly lateTarget = (): string => this.#pick([...this.#apis.map(({ url }) => url), ...this.#leaving]);

  /** No client calls this API any more. */
  readonly left = (url: string): void => void this.#leaving.delete(url);

  /** Replaces the oldest API, and waits until it has ended in order. */
  async replaceApi(root?: string): Promise<void> {
    await this.startApi(root);
    const old = this.#apis.shift();
    if (!old) throw new Error('there is no API to replace');
    this.#leaving.add(old.url);
    await old.process.stop();
    this.#leaving.delete(old.url);
    expect(old.process.child.exitCode).toBe(0);
  }

  /** Replaces the oldest worker, and waits until it has ended in order. */
  async replaceWorker(root?: string): Promise<void> {
    await this.startWorker(root);
    const old = this.#workers.shift();
    await old?.stop();
    expect(old?.child.exitCode).toBe(0);
  }

  #pick(urls: readonly string[]): string {
    this.#next += 1;
    return String(urls[this.#next % urls.length]);
  }
}
