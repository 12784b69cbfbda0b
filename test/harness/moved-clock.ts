import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';
import type { ServiceProcess } from './service.js';
import { until } from './until.js';

const HARNESS = join(projectRoot(), 'test/harness');
export const HOUR_MS = 3_600_000;

/** This process lives `ms` later, for as long as `run` takes: code of the product in it reads that clock. */
export async function laterBy<Value>(ms: number, run: () => Promise<Value>): Promise<Value> {
  const { now } = Date;
  Date.now = () => now() + ms;
  try {
    return await run();
  } finally {
    Date.now = now;
  }
}

/** A wall clock that a test moves under running processes. */
export class MovedClock {
  readonly #folder = mkdtempSync(join(tmpdir(), 'doorbuster-clock-'));
  readonly #file = join(this.#folder, 'clock');

  constructor() {
    this.#write(0);
    atEnd('a clock', () => rmSync(this.#folder, { recursive: true }));
  }

  /** What makes a process of ours live by this clock. */
  get env(): NodeJS.ProcessEnv {
    const preload = pathToFileURL(join(HARNESS, 'preload-clock.mjs')).href;
    return { NODE_OPTIONS: `--import=${preload}`, MOVED_CLOCK: this.#file };
  }

  /** A starter of the same Redis that lives by this clock; null where there is no C compiler to make one with. */
  redisBinary(): string | null {
    const library = join(this.#folder, 'moved-clock.so');
    if (process.platform !== 'linux') return null;
    try {
      execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, join(HARNESS, 'preload-clock.c')]);
    } catch {
      return null;
    }
    const starter = join(this.#folder, 'redis-server');
    const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY ?? 'redis-server';
    const text = `#!/bin/sh\nexec env LD_PRELOAD='${library}' MOVED_CLOCK='${this.#file}' '${binary}' "$@"\n`;
    writeFileSync(starter, text, { mode: 0o755 });
    return starter;
  }

  /** Moves the clock to so much after the real time, at once for a Redis. */
  move(ms: number): void {
    this.#write(ms);
  }

  /** Moves the clock under processes of ours, and returns when all of them live at the new time. */
  async moveUnder(processes: readonly ServiceProcess[], ms: number): Promise<void> {
    const seen = processes.map(({ log }) => log.length);
    this.#write(ms);
    const told = JSON.stringify({ msg: 'the clock was moved', by: ms });
    await until('the processes live at another time', () =>
      processes.every(({ log }, i) => log.slice(seen[i]).includes(told)),
    );
  }

  #write(ms: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ms));
    // In place: a Redis has the file mapped.
    writeFileSync(this.#file, bytes, { flag: existsSync(this.#file) ? 'r+' : 'w' });
  }
}
