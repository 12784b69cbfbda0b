import http from 'node:http';
import https from 'node:https';
import type { RegionName } from '../../shared/domain/regions.js';

export type LinkLimits = {
  callMs: number;
  callTries: number;
  callsInFlight: number;
  responseBytes: number;
};

/** `body`: null = none. `headersOfRetry`: in addition, from the second try on. */
export type LinkRequest = {
  method: string;
  path: string;
  headers: Readonly<Record<string, string>>;
  headersOfRetry?: Readonly<Record<string, string>>;
  body: string | null;
};
/** `tries`: how often it was sent. */
export type LinkResponse = { status: number; headers: http.IncomingHttpHeaders; text: string; tries: number };

/** A call to another region got no response: its link is cut, or it is busy. */
export class RegionUnreachable extends Error {
  override readonly name = 'RegionUnreachable';
}

/**
 * The connections of this process to the API of another region. After a beat without a response, calls are refused at
 * once until a beat gets one, so that a cut link costs no time.
 */
export class RegionLink {
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;
  #inFlight = 0;
  #isUp = false;

  constructor(
    readonly region: RegionName,
    readonly url: string,
    readonly limits: LinkLimits,
  ) {
    this.#client = url.startsWith('https:') ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: limits.callsInFlight + 1 });
  }

  /** Whether the last beat got a response. */
  get isUp(): boolean {
    return this.#isUp;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Sends a beat once, whether the link is up or not. @throws RegionUnreachable */
  async beat(request: LinkRequest): Promise<LinkResponse> {
    try {
      const response = await this.#try(request, request.headers);
      this.#isUp = true;
      return { ...response, tries: 1 };
    } catch (error) {
      this.#isUp = false;
      throw unreachable(error);
    }
  }

  /** Marks the link as down, although the other region replied: it may not serve. The next beat decides again. */
  down(): void {
    this.#isUp = false;
  }

  /**
   * Sends a request that may be repeated, until there is a response.
   * @throws RegionUnreachable also when the link is down, or too many calls are in flight
   */
  async call(request: LinkRequest): Promise<LinkResponse> {
    if (!this.#isUp) throw new RegionUnreachable('the last beat got no response');
    if (this.#inFlight >= this.limits.callsInFlight) throw new RegionUnreachable('too many calls are in flight');
    this.#inFlight += 1;
    try {
      for (let tries = 1; ; tries += 1) {
        const headers = tries === 1 ? request.headers : { ...request.headers, ...request.headersOfRetry };
        try {
          return { ...(await this.#try(request, headers)), tries };
        } catch (error) {
          if (tries >= this.limits.callTries || !this.#isUp) throw unreachable(error);
        }
      }
    } finally {
      this.#inFlight -= 1;
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #try(
    { method, path, body }: LinkRequest,
    headers: LinkRequest['headers'],
  ): Promise<Pick<LinkResponse, 'status' | 'headers' | 'text'>> {
    const { callMs, responseBytes } = this.limits;
    const length = body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    return new Promise((resolve, reject) => {
      const request = this.#client.request(`${this.url}${path}`, {
        method,
        agent: this.#agent,
        headers: { ...headers, ...length },
      });
      const deadline = setTimeout(() => request.destroy(new Error('no response in time')), callMs);
      const fail = (error: Error) => {
        clearTimeout(deadline);
        reject(error);
      };
      request.on('response', (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          chunks.push(chunk);
          if (bytes <= responseBytes) return;
          // Its end may have arrived already, so destroying it does not report an error.
          fail(new Error('the response is too long'));
          request.destroy();
        });
        response.on('end', () => {
          clearTimeout(deadline);
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
        });
        response.on('error', fail);
      });
      request.on('error', fail);
      request.end(body ?? undefined);
    });
  }
}

function unreachable(error: unknown): RegionUnreachable {
  return new RegionUnreachable(error instanceof Error ? error.message : String(error), { cause: error });
}
