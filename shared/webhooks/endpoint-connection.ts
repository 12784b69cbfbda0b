import http from 'node:http';
import https from 'node:https';
import { isPublicAddress, literalAddress, PrivateAddress, publicLookup } from './public-address.js';

export type PostLimits = { webhookTimeoutMs: number; webhookAnswerBytes: number };

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
      let status = 0;
      const request = client.request(url, {
        method: 'POST',
        agent,
        headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
        ...(this.allowPrivate ? {} : { lookup: this.lookup }),
      });
      const deadline = setTimeout(
        () => request.destroy(new Error('no response in time')),
        this.limits.webhookTimeoutMs,
      );
      // The status decides, even if the rest of the response fails.
      const finish = (error?: Error) => {
        clearTimeout(deadline);
        if (status > 0) resolve(status);
        else reject(error ?? new Error('the connection was closed without a response'));
      };
      request.on('response', (response) => {
        status = response.statusCode ?? 0;
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > this.limits.webhookAnswerBytes) request.destroy();
        });
        response.on('end', () => finish());
        response.on('error', finish);
      });
      request.on('error', finish);
      request.on('close', () => finish());
      request.end(body);
    });
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }
}
