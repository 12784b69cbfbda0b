import { EngineUnavailable } from '../errors/faults.js';
import { BadBackup } from './manifest.js';
import { RestoreRefused } from './restore-database.js';

/** For COPY of large tables: a day. */
export const COPY_STATEMENT_MS = 86_400_000;

/** Bytes in words, such as "1.2 MB". */
export function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), units.length);
  return `${(bytes / 1_000 ** power).toFixed(1)} ${units[power - 1]}`;
}

/** Prints why a command failed. The exit code is 1 if it refused, and 2 otherwise. */
export function endWithReason(what: string, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  const engine = error instanceof EngineUnavailable ? `${error.engine}: ` : '';
  process.stderr.write(`${what}: ${engine}${reason}\n`);
  process.exitCode = error instanceof BadBackup || error instanceof RestoreRefused ? 1 : 2;
}
