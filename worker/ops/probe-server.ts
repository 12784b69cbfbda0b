import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { uuidv7 } from 'uuidv7';

/** What a path responds with. */
type ProbeResponse = { status: number; type: string; text: string };

const REQUEST_MS = 5_000;
const CONNECTIONS = 64;
/** As in api/http/respond.ts. */
const SAFE_REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Creates the listener of a worker for probes and metrics: GET of the given paths. Any other path is 404. It is for
 * operators alone, so it has no quota; its connections and their time are bounded.
 * @param refused called for each response that is a problem
 */
export function createProbeServer(
  paths: ReadonlyMap<string, () => Promise<ProbeResponse>>,
  refused: (problem: { request_id: string; path: string; code: string }) => void,
): Server {
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS }, (req, res) => {
    const send = ({ status, type, text }: ProbeResponse) => {
      const headers = { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text), 'Cache-Control': 'no-store' };
      res.writeHead(status, { ...headers, 'X-Request-Id': request_id }).end(req.method === 'HEAD' ? undefined : text);
    };
    const given = String(req.headers['x-request-id']);
    const request_id = SAFE_REQUEST_ID.test(given) && req.headers['x-request-id'] ? given : uuidv7();
    const path = String(req.url).split('?')[0] ?? '';
    const problem = (status: number, code: string, title: string, detail: string) => {
      const type = `https://doorbuster.dev/errors/${code}`;
      const instance = `urn:doorbuster:request:${request_id}`;
      const text = JSON.stringify({ type, title, status, detail, instance, code });
      refused({ request_id, path, code });
      send({ status, type: 'application/problem+json', text });
    };
    const run = paths.get(path);
    if (!run) return problem(404, 'not_found', 'Not found', 'No resource exists at this path.');
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.setHeader('Allow', 'GET, HEAD');
      return problem(405, 'method_not_allowed', 'Method not allowed', 'This path accepts GET and HEAD.');
    }
    run().then(send, () => problem(500, 'internal_error', 'Internal error', 'The check failed.'));
  });
  server.maxConnections = CONNECTIONS;
  return server;
}

/**
 * @returns the address that it listens on
 * @throws Error that names WORKER_PORT when the port is taken
 */
export async function listenForProbes(server: Server, port: number, host: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new Error(`port ${port} on ${host} is taken; set WORKER_PORT to another`);
  });
  return `http://${host}:${(server.address() as AddressInfo).port}`;
}
