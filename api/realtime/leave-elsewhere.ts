import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';

/** Longer than the process that writes may need: a durable response waits for Postgres and for replicas. */
const TIMEOUT_MS = 3_000;
const CONNECTIONS = 16;
/** Calls that run or wait for a connection. What is more is refused at once. */
const MOST_CALLS = 1_000;
const MAX_BYTES = 4_096;
const PATH = '/flash-sale/queue';
/** Codes of refusals by which the user does not wait. */
const NOT_WAITING = ['not_waiting', 'campaign_not_found'];

const answerForm = z.union([
  z.object({ data: z.object({ status: z.literal('left') }) }).transform(() => 'left' as const),
  z.object({ code: z.enum(NOT_WAITING) }).transform(() => 'not_waiting' as const),
]);

/** What became of it: `away` = the process that writes did not answer, or could not do it now. */
export type LeftElsewhere = 'left' | 'not_waiting' | 'away';

/** Lets users leave the line by a process that writes, over a bounded number of connections. */
export class LeaveElsewhere {
  readonly #url: URL;
  readonly #agent: HttpAgent;
  #calls = 0;
  /** Calls that failed since the last one that did not. */
  #failed = 0;

  /** @param writeUrl URL of the processes that write, without a slash at the end */
  constructor(
    writeUrl: string,
    readonly log: Log,
  ) {
    this.#url = new URL(writeUrl + PATH);
    const options = { keepAlive: true, maxSockets: CONNECTIONS };
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
  }

  /** @param ticket of the user, as a client sends it */
  async leave(ticket: string): Promise<LeftElsewhere> {
    if (this.#calls >= MOST_CALLS) return 'away';
    this.#calls += 1;
    try {
      const outcome = await this.#call(ticket);
      if (this.#failed > 0) this.log.info({ calls: this.#failed }, 'users can leave the line over sockets again');
      this.#failed = 0;
      return outcome;
    } catch (error) {
      this.#failed += 1;
      if (this.#failed === 1)
        this.log.warn({ reason: String(error) }, 'users cannot leave the line over sockets: API_WRITE_URL fails');
      return 'away';
    } finally {
      this.#calls -= 1;
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #call(ticket: string): Promise<LeftElsewhere> {
    const send = this.#url.protocol === 'https:' ? httpsRequest : httpRequest;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    return new Promise((resolve, reject) => {
      const options = { method: 'DELETE', agent: this.#agent, signal, headers: { 'x-ticket': ticket } };
      const sent = send(this.#url, options, (response) => {
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > MAX_BYTES) response.destroy(new Error('its response is too long'));
        });
        text(response)
          .then((body) => outcomeOf(Number(response.statusCode), body))
          .then(resolve, reject);
      });
      sent.on('error', reject);
      sent.end();
    });
  }
}

/** @throws Error if the response is none of the call */
function outcomeOf(status: number, body: string): LeftElsewhere {
  try {
    return answerForm.parse(JSON.parse(body));
  } catch {
    throw new Error(`it responded with ${status}`);
  }
}
