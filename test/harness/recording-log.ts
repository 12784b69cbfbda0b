import type { Log } from '../../shared/observability/log.js';

export type LogLine = { level: string; fields: Record<string, unknown>; message: string };

/** A log that is kept instead of written, so that a test can ask what was said. */
export function recordingLog(): Log & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: string) => (fields: Record<string, unknown>, message: string) =>
    lines.push({ level, fields, message });
  const log = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    fatal: at('fatal'),
  };
  return log as unknown as Log & { lines: LogLine[] };
}
