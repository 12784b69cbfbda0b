import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Messages of warnings and errors, and those that name the cause of a 503. */
const TELLING = /"level":[456]0|"datastore unavailable"|"temporarily_unavailable"|"Redis availability changed"/;
const MOST_LINES = 8;
const MOST_CHARACTERS = 200;

const READYZ_LIMIT_MS = 2_000;
/** The end of a log that is kept. */
const MOST_BYTES = 4 * 1024 * 1024;

/** @property url asked for /readyz when a test fails */
type LoggedProcess = { name: string; log: readonly string[]; url: string | null };

const processes: LoggedProcess[] = [];
const files: { name: string; path: string }[] = [];

/** Called by the environment of the tests, which lies outside of the module. */
export type FailureReport = {
  /** What the processes of this file said about their engines. */
  troubles(): string;
  /** Writes the logs of the processes and engines of this file, and the last /readyz, to a folder. */
  keep(folder: string): Promise<void>;
};
const report: FailureReport = {
  troubles: () => processes.map(troublesOf).filter(Boolean).join('\n'),
  async keep(folder) {
    await mkdir(folder, { recursive: true });
    await Promise.all([
      ...processes.map((one, at) => keepProcess(one, join(folder, `${at + 1}-${one.name}`))),
      ...files.map(({ name, path }, at) => keepEnd(path, join(folder, `${at + 1}-${name}.log`))),
    ]);
  },
};
(globalThis as { failureReport?: FailureReport }).failureReport = report;

/** Shows the log of a process with each test of this file that fails, and keeps it. */
export function keepLog(name: string, log: readonly string[]): { servesAt(url: string): void } {
  const one: LoggedProcess = { name, log, url: null };
  processes.push(one);
  return {
    servesAt(url) {
      one.url = url;
    },
  };
}

/** Keeps the log of an engine if a test of this file fails. */
export function keepLogFile(name: string, path: string): void {
  if (!files.some((file) => file.path === path)) files.push({ name, path });
}

async function keepProcess({ log, url }: LoggedProcess, path: string): Promise<void> {
  await writeFile(`${path}.log`, log.map((line) => `${line}\n`).join(''));
  if (url === null) return;
  const readyz = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(READYZ_LIMIT_MS) }).then(
    async (response) => `${response.status} ${await response.text()}`,
    (error) => `no response: ${error}`,
  );
  await writeFile(`${path}.readyz`, `${readyz}\n`);
}

async function keepEnd(from: string, to: string): Promise<void> {
  // A test may have removed the data of its engine.
  const content = await readFile(from).catch(() => null);
  if (content) await writeFile(to, content.subarray(-MOST_BYTES));
}

function troublesOf({ name, log }: LoggedProcess): string {
  const lines = log.filter((line) => TELLING.test(line)).slice(-MOST_LINES);
  return lines.map((line) => `${name} ${shortened(line)}`).join('\n');
}

function shortened(line: string): string {
  try {
    const { level: _level, process: _process, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
    return `${String(time).slice(11, -1)} ${msg} ${JSON.stringify(rest)}`.slice(0, MOST_CHARACTERS);
  } catch {
    return line.slice(0, MOST_CHARACTERS);
  }
}
