import type { Request } from 'express';
import { API_HEADERS } from './security-headers.js';

/** Headers of a CSV file, which a browser saves. @param name without characters that a file name cannot have */
export function csvHeaders({ requestId }: Pick<Request, 'requestId'>, name: string): string[] {
  return [
    ...API_HEADERS,
    ...['Content-Type', 'text/csv; charset=utf-8'],
    ...['Content-Disposition', `attachment; filename="${name.replace(/[^\w.-]/g, '_')}.csv"`],
    ...['Cache-Control', 'no-store', 'X-Request-Id', requestId],
  ];
}

/** Whether a request asks for CSV, by `format` or else by `Accept`. */
export function wantsCsv(req: Request, format: 'json' | 'csv' | undefined): boolean {
  return (format ?? (req.accepts(['application/json', 'text/csv']) === 'text/csv' ? 'csv' : 'json')) === 'csv';
}
