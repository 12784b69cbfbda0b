import http from 'node:http';
import net from 'node:net';
import type { Answer } from './clients.js';

/** A request without a response for this long never gets one: a limit for what hangs, not for what is slow. */
const ANSWER_LIMIT_MS = 60_000;

export type RawRequest = {
  method?: string;
  path?: string;
  headers?: http.OutgoingHttpHeaders;
  /** Sent as it is; nothing is added to the headers but Content-Length. */
  body?: string | Buffer;
  /** Sent in pieces, with Transfer-Encoding: chunked. */
  chunks?: readonly (string | Buffer)[];
};

/** One request on a connection of its own, with exactly these headers and bytes. */
export function request(
  url: string,
  { method = 'GET', path = '/', headers = {}, body, chunks }: RawRequest,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
    const call = http.request(
      { hostname, port, method, path, headers: { ...length, ...headers }, agent: false },
      (res) => {
        const parts: Buffer[] = [];
        res.on('data', (part: Buffer) => parts.push(part));
        res.on('end', () => {
          clearTimeout(limit);
          resolve(asAnswer(res.statusCode ?? 0, res.rawHeaders, Buffer.concat(parts).toString()));
        });
        res.on('error', reject);
      },
    );
    const limit = setTimeout(
      () => call.destroy(new Error(`${method} ${path} was not answered within ${ANSWER_LIMIT_MS} ms`)),
      ANSWER_LIMIT_MS,
    );
    call.on('error', (error) => {
      clearTimeout(limit);
      reject(error);
    });
    for (const chunk of chunks ?? []) call.write(chunk);
    call.end(body);
  });
}

/** A JSON text, well formed or not, as the body of a request that says it is JSON. */
export function requestJson(
  url: string,
  method: string,
  path: string,
  body: string | Buffer,
  headers: http.OutgoingHttpHeaders = {},
): Promise<Answer> {
  return request(url, { method, path, body, headers: { 'content-type': 'application/json', ...headers } });
}

/**
 * Writes bytes to a connection, ends it on our side, and reads until the server ends it too.
 * @returns the first answer on it; null when the server said nothing
 */
export function exchangeBytes(url: string, bytes: string | Buffer): Promise<Answer | null> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true }, () => socket.end(bytes));
    const parts: Buffer[] = [];
    const limit = setTimeout(() => {
      socket.destroy();
      reject(new Error(`the connection was neither answered nor ended within ${ANSWER_LIMIT_MS} ms`));
    }, ANSWER_LIMIT_MS);
    socket.on('data', (part) => parts.push(part));
    socket.on('error', () => {
      // A reset after the answer; what came before it counts.
    });
    socket.on('close', () => {
      clearTimeout(limit);
      resolve(parseAnswer(Buffer.concat(parts).toString()));
    });
    socket.on('end', () => socket.destroy());
  });
}

/** Sends a request and hangs up before its answer, as a phone does that changes networks. @returns the hanging up */
export async function sendWithoutReading(url: string, path: string, json: unknown): Promise<() => void> {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify(json);
  const socket = net.connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {
    // Hanging up is the point.
  });
  socket.pause();
  await new Promise<void>((resolve) => {
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      () => resolve(),
    );
  });
  return () => socket.destroy();
}

function parseAnswer(text: string): Answer | null {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine, ...lines] = text.slice(0, Math.max(0, end)).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine ?? '')?.[1]);
  if (!status) return null;
  const headers = lines.flatMap((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  return asAnswer(status, headers, text.slice(end + 4));
}

function asAnswer(status: number, rawHeaders: readonly string[], text: string): Answer {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(String(rawHeaders[i]), String(rawHeaders[i + 1]));
  const isJson = /json/.test(headers.get('content-type') ?? '') && text !== '';
  const body = isJson ? (JSON.parse(text) as Record<string, Record<string, unknown>>) : {};
  return { status, headers, body, data: body.data ?? {}, text };
}
