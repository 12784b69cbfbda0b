import { closeSync, openSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { History } from '../history.js';
import type { RunningProcess, Tools } from '../tools.js';
import type { Link } from './link.js';

/** A supervisor starts a process again so long after it ended by itself. */
const RESTART_AFTER_MS = 1_000;
const STOP_LIMIT_MS = 15_000;
const LOOK_EVERY_MS = 25;

export type NodeLinks = { redis: Link; postgres: Link };
export type ServiceNodeOptions = {
  name: string;
  kind: 'api' | 'worker';
  env: NodeJS.ProcessEnv;
  logPath: string;
  links: NodeLinks;
  /** Where an API listens; null for a worker. */
  port: number | null;
};

/** What a process logs when it ends before Postgres has its promises. */
const LEFT_PROMISES = /stopping before Postgres has all promises|the stop took too long and was cut off/;

/** One API or worker process that is killed, frozen and started again, and what a supervisor does for it. */
export class ServiceNode {
  readonly name: string;
  readonly kind: 'api' | 'worker';
  readonly links: NodeLinks;
  /** Settles when the present incarnation accepts connections or has ended. */
  up: Promise<void> = Promise.resolve();
  #running: RunningProcess | null = null;
  #incarnation = 0;
  #wanted = false;
  #frozen = false;

  constructor(
    readonly options: ServiceNodeOptions,
    readonly tools: Tools,
    readonly history: History,
  ) {
    this.name = options.name;
    this.kind = options.kind;
    this.links = options.links;
  }

  /** The name of the present incarnation, or of the last one. */
  get process(): string {
    return `${this.name}#${this.#incarnation}`;
  }

  /** Starts a new incarnation. @returns when it was launched; `up` says when it accepts connections */
  async start(): Promise<void> {
    this.#wanted = true;
    this.#incarnation += 1;
    const { process } = this;
    const log = openSync(this.options.logPath, 'a');
    const main = join(this.tools.root, 'dist', this.kind, 'main.js');
    const running = await this.tools
      .launch(globalThis.process.execPath, [main], {
        cwd: this.tools.root,
        env: this.options.env,
        stdio: ['ignore', log, log],
      })
      .finally(() => closeSync(log));
    this.#running = running;
    running.exited.then((exit) => this.#ended(process, `${exit.signal ?? `code ${exit.code}`}`)).catch(() => {});
    this.up = this.#announce(process, running);
  }

  /** SIGKILL, and waits until the process is gone. */
  async kill(): Promise<void> {
    await this.#end('kill', (running) => running.kill('SIGKILL'));
  }

  /** SIGTERM, and waits until the process is gone. One that waited for Postgres in vain takes promises with it. */
  async stop(): Promise<void> {
    const { process } = this;
    const { logPath } = this.options;
    const { size } = await stat(logPath);
    await this.#end('stop', (running) => void running.stop(STOP_LIMIT_MS));
    const logged = (await readFile(logPath)).subarray(size).toString();
    const note = LEFT_PROMISES.exec(logged)?.[0];
    if (note) this.history.event({ what: 'down', process, how: 'exit', note });
  }

  freeze(): void {
    this.history.event({ what: 'freeze', process: this.process, phase: 'begin' });
    this.#running?.kill('SIGSTOP');
    this.#frozen = true;
  }

  resume(): void {
    if (!this.#frozen) return;
    this.#frozen = false;
    this.#running?.kill('SIGCONT');
    this.history.event({ what: 'freeze', process: this.process, phase: 'end' });
  }

  async #end(how: 'kill' | 'stop', signal: (running: RunningProcess) => void): Promise<void> {
    this.#wanted = false;
    const running = this.#running;
    this.#running = null;
    if (!running) return;
    this.history.event({ what: 'down', process: this.process, how });
    signal(running);
    await running.exited;
  }

  #ended(process: string, note: string): void {
    if (!this.#wanted || process !== this.process) return;
    this.#running = null;
    this.history.event({ what: 'down', process, how: 'exit', note });
    setTimeout(() => {
      if (this.#wanted && this.#running === null) this.start().catch(() => {});
    }, RESTART_AFTER_MS).unref();
  }

  /** Records when an API accepts connections. A worker counts as up when it was started. */
  async #announce(process: string, running: RunningProcess): Promise<void> {
    const { port } = this.options;
    while (port !== null && running.exit() === undefined && !(await accepts(port))) await sleep(LOOK_EVERY_MS);
    if (running.exit() === undefined) this.history.event({ what: 'up', process });
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const done = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });
}
