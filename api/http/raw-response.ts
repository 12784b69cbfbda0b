import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Problem } from '../../shared/errors/catalogue.js';
import { problemDocument } from './problem.js';
import { retryAfter } from './respond.js';
import { API_HEADERS } from './security-headers.js';

/** Sends a problem on a socket without a response object (malformed HTTP, a refused upgrade), and closes the socket. */
export function respondRaw(socket: Duplex, problem: Problem, requestId: string): void {
  const body = problemDocument(problem, requestId);
  const headers: string[] = [...API_HEADERS];
  for (const [name, value] of Object.entries(problem.extras.headers ?? {})) headers.push(name, value);
  const { retryAfterSeconds } = problem.extras;
  if (retryAfterSeconds !== undefined) headers.push('Retry-After', retryAfter(retryAfterSeconds));
  headers.push(
    'Content-Type',
    'application/problem+json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Cache-Control',
    'no-store',
    'X-Request-Id',
    requestId,
    'Connection',
    'close',
  );
  let head = `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  socket.end(`${head}\r\n${body}`);
}
