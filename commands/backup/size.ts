/** For COPY of large tables: a day. */
export const COPY_STATEMENT_MS = 86_400_000;

/** Bytes in words, such as "1.2 MB". */
export function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), units.length);
  return `${(bytes / 1_000 ** power).toFixed(1)} ${units[power - 1]}`;
}
