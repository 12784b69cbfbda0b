import type { PostgresOptions, RedisOptions, RunningEngine } from '../scripts/engines/engine.js';

export type ProcessExit = { code: number | null; signal: NodeJS.Signals | null };
export type RunningProcess = {
  readonly pid: number;
  readonly exited: Promise<ProcessExit>;
  exit(): ProcessExit | undefined;
  kill(signal?: NodeJS.Signals): void;
  stop(limitMs?: number): Promise<void>;
};

/** What `main.mjs` passes in from scripts/, which is plain JavaScript and not part of the build. */
export type Tools = {
  /** The repository. */
  root: string;
  redisBinary: string;
  startRedis(options: RedisOptions): Promise<RunningEngine>;
  startPostgres(options: PostgresOptions): Promise<RunningEngine>;
  launch(command: string, args: string[], options: object): Promise<RunningProcess>;
  run(command: string, args: string[], options: object): Promise<ProcessExit & { output: string }>;
  freePort(): Promise<number>;
  print(line: string): void;
};
