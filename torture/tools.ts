import type { startPostgres } from '../scripts/engines/postgres.mjs';
import type { startRedis } from '../scripts/engines/redis.mjs';

export type ProcessExit = { code: number | null; signal: NodeJS.Signals | null };
export type RunningProcess = {
  readonly pid: number;
  readonly exited: Promise<ProcessExit>;
  exit(): ProcessExit | undefined;
  kill(signal?: NodeJS.Signals): void;
  stop(limitMs?: number): Promise<void>;
};

/** What `main.mjs` passes in from scripts/, which are plain JavaScript and are not part of the build. */
export type Tools = {
  /** The repository. */
  root: string;
  redisBinary: string;
  startRedis: typeof startRedis;
  startPostgres: typeof startPostgres;
  launch(command: string, args: string[], options: object): Promise<RunningProcess>;
  run(command: string, args: string[], options: object): Promise<ProcessExit & { output: string }>;
  freePort(): Promise<number>;
  print(line: string): void;
};
