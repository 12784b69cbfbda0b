import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A wall clock that can be moved under a running process, by the preloads of test/harness. */
export class Clock {
  readonly #file: string;

  constructor(
    folder: string,
    name: string,
    readonly root: string,
  ) {
    this.#file = join(folder, `${name}.clock`);
    writeFileSync(this.#file, Buffer.alloc(8));
  }

  /** Makes a Node process use this clock. */
  get env(): NodeJS.ProcessEnv {
    const preload = pathToFileURL(join(this.root, 'test/harness/preload-clock.mjs')).href;
    return { NODE_OPTIONS: `--import=${preload}`, MOVED_CLOCK: this.#file };
  }

  /** A starter of the same Redis with this clock; null where there is no C compiler. */
  redisStarter(folder: string, binary: string): string | null {
    if (process.platform !== 'linux') return null;
    const library = join(folder, 'moved-clock.so');
    try {
      const source = join(this.root, 'test/harness/preload-clock.c');
      execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, source], { stdio: 'ignore' });
    } catch {
      return null;
    }
    const starter = join(folder, 'redis-server');
    const text = `#!/bin/sh\nexec env LD_PRELOAD='${library}' MOVED_CLOCK='${this.#file}' '${binary}' "$@"\n`;
    writeFileSync(starter, text, { mode: 0o755 });
    return starter;
  }

  /** Moves the clock to `ms` after the real time. */
  move(ms: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ms));
    // In place, since Redis has the file mapped.
    writeFileSync(this.#file, bytes, { flag: 'r+' });
  }
}
