import { Agent, request } from 'node:http';
import { atEnd } from './cleanup.js';

/** An answer and nothing around it: thousands of them are kept. */
export type Reply = { status: number; body: Record<string, any> };

/** Sends JSON over a fixed number of connections that stay open, as a load balancer does. */
export class KeepAlive {
  readonly #agent: Agent;

  constructor(readonly connections: number) {
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections });
    atEnd('connections that were kept', () => this.#agent.destroy());
  }

  /** @returns null when the connection broke before there was a whole answer */
  post(url: string, json: unknown, headers: Record<string, string> = {}): Promise<Reply | null> {
    const body = JSON.stringify(json);
    return new Promise((resolve) => {
      const req = request(
        url,
        {
          method: 'POST',
          agent: this.#agent,
          headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers },
        },
        (res) => {
          let text = '';
          res.setEncoding('utf8');
          res.on('data', (chunk) => {
            text += chunk;
          });
          res.on('error', () => resolve(null));
          res.on('close', () => resolve(res.complete ? { status: res.statusCode ?? 0, body: JSON.parse(text) } : null));
        },
      );
      req.on('error', () => resolve(null));
      req.end(body);
    });
  }
}
