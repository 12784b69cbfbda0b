import http from 'node:http';
import https from 'node:https';
import { isPublicAddress, literalAddress, PrivateAddress, publicLookup } from './public-address.js';

/** Responses end so soon after their status, if at all. Only then the connection serves the next request. */
const BODY_MS = 100;

export type PostLimits = { timeoutMs: number; answerBytes: number };

/**
 * One connection to one endpoint, kept open for the events of a run; several for notifications. Redirects are not
 * followed: they count as failed deliveries. An owner who moves an endpoint asks an operator to change its URL.
 */
export class EndpointConnection {
  readonly #agents: { http: http.Agent; https: https.Agent };

  /** @param maxSockets connections to one host */
  constructor(
    readonly allowPrivate: boolean,
    readonly limits: PostLimits,
    readonly lookup = publicLookup(),
    maxSockets = 1,
  ) {
    this.#agents = {
      http: new http.Agent({ keepAlive: true, maxSockets }),
      https: new https.Agent({ keepAlive: true, maxSockets }),
    };
  }

  /**
   * Settles when the status is there, and does not wait for the body. A connection whose body goes on is destroyed.
   * @returns the status of the response
   * @throws when there is no response, and PrivateAddress when the address is private
   */
  post(target: string, headers: Record<string, string>, body: string | Buffer): Promise<number> {
    const url = new URL(target);
    const literal = literalAddress(url);
    if (!this.allowPrivate && literal !== null && !isPublicAddress(literal))
      return Promise.reject(new PrivateAddress(`${literal} is a private address`));
    const [client, agent] =
      url.protocol === 'https:' ? ([https, this.#agents.https] as const) : ([http, this.#agents.http] as const);
    return new Promise((resolve, reject) => {
      const request = client.request(url, {
        method: 'POST',
        agent,
        headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
        ...(this.allowPrivate ? {} : { lookup: this.lookup }),
      });
      let timer = setTimeout(() => request.destroy(new Error('no response in time')), this.limits.timeoutMs);
      request.on('response', (response) => {
        clearTimeout(timer);
        timer = setTimeout(() => request.destroy(), BODY_MS);
        resolve(response.statusCode ?? 0);
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > this.limits.answerBytes) request.destroy();
        });
        // The status decides, even if the rest of the response fails.
        response.on('error', () => {});
      });
      request.on('error', reject);
      request.on('close', () => {
        clearTimeout(timer);
        reject(new Error('the connection was closed without a response'));
      });
      request.end(body);
    });
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }
}
