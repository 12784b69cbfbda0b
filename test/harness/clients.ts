import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ADMIN_SECRET, SERVICE_SECRET } from './service.js';

/** An answer as it came, with its body parsed. `data` of a success, the problem document otherwise. */
export type Answer = {
  status: number;
  headers: Headers;
  body: Record<string, any>;
  data: Record<string, any>;
  text: string;
};

/** How long a request is repeated that was refused because an engine did not reply in time. */
const PATIENCE_MS = 5_000;

type Sent = RequestInit & { json?: unknown };

/**
 * Sends a request; JSON goes out with its type, and anything that is no JSON comes back as text. Repeats a request that
 * may be repeated after `temporarily_unavailable`, as the contract says: on a busy machine an engine may take longer
 * for a reply than a response may. Repeats it once if its connection, which had been idle, was closed at that moment.
 * @throws Error when the response breaks the contract of its route
 */
export async function send(url: string, init: Sent = {}): Promise<Answer> {
  const deadline = performance.now() + PATIENCE_MS;
  const first = sendOnce(url, init).catch((error) => {
    if (!wasClosedWhileIdle(error) || !mayRepeat(url, init)) throw error;
    return sendOnce(url, init);
  });
  for (let sent = first; ; sent = sendOnce(url, init)) {
    const answer = await sent;
    if (answer.body.code !== 'temporarily_unavailable' || !mayRepeat(url, init)) return answer;
    const waitMs = 1_000 * Number(answer.headers.get('retry-after'));
    if (performance.now() + waitMs > deadline) return answer;
    await sleep(waitMs);
  }
}

/** Sends a request and returns its first response. @throws Error when it breaks the contract of its route */
export async function sendOnce(url: string, init: Sent = {}): Promise<Answer> {
  const { json, ...rest } = init;
  const headers = new Headers(rest.headers);
  if (json !== undefined) headers.set('content-type', 'application/json');
  const response = await fetch(url, {
    ...rest,
    headers,
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });
  const text = await response.text();
  const body = /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : {};
  if (body.breach !== undefined) throw new Error(body.breach);
  return { status: response.status, headers: response.headers, body, data: body.data ?? {}, text };
}

/** Whether the server closed a connection that had served before, as it does with an idle one. */
function wasClosedWhileIdle(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string; socket?: { bytesRead: number } } };
  return cause?.code === 'UND_ERR_SOCKET' && (cause.socket?.bytesRead ?? 0) > 0;
}

/** A validation changes nothing; reports of payments name their reservation or order, and are the same each time. */
const REPEATABLE = /\/(?:flash-sale\/(?:confirm|release|refund|extend)|coupons\/validate)$/;

function mayRepeat(url: string, { method = 'GET', headers, json }: Sent): boolean {
  if (method === 'GET' || REPEATABLE.test(new URL(url).pathname)) return true;
  return (
    new Headers(headers).has('idempotency-key') || Boolean((json as { idempotency_key?: unknown })?.idempotency_key)
  );
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

/** What an operator does. */
export class Operator {
  constructor(readonly url: string) {}

  call(method: string, path: string, json?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return send(`${this.url}${path}`, {
      method,
      headers: { ...bearer(ADMIN_SECRET), ...headers },
      ...(json === undefined ? {} : { json }),
    });
  }

  /** Creates a campaign under a name of its own and returns its product id. */
  async openCampaign(terms: Record<string, unknown> = {}): Promise<string> {
    const create = () => {
      const named = { product_id: `sale-${randomUUID()}`, total_limit: null, ...terms };
      return this.call('POST', '/admin/campaigns', named);
    };
    const deadline = performance.now() + PATIENCE_MS;
    let answer = await create();
    // On a busy machine an engine may be away for a moment, and a service with many shards is ready with the first one.
    // Another product, since this one may have been created.
    while (answer.body.code === 'temporarily_unavailable' && performance.now() < deadline) {
      await sleep(100);
      answer = await create();
    }
    if (answer.status !== 201) throw new Error(`the campaign was not created: ${answer.text}`);
    return String(answer.data.product_id);
  }

  async stats(product: string): Promise<Record<string, any>> {
    return (await this.call('GET', `/admin/campaigns/${product}/stats`)).data;
  }
}

/** What a payment service says. */
export class PaymentService {
  constructor(readonly url: string) {}

  confirm(reservationId: string, paymentRef?: string): Promise<Answer> {
    return this.#say('confirm', { reservation_id: reservationId, ...(paymentRef ? { payment_ref: paymentRef } : {}) });
  }
  release(reservationId: string, reason?: string): Promise<Answer> {
    return this.#say('release', { reservation_id: reservationId, ...(reason ? { reason } : {}) });
  }
  refund(reservationId: string): Promise<Answer> {
    return this.#say('refund', { reservation_id: reservationId });
  }
  /** Any call, with any body. */
  say(call: 'confirm' | 'release' | 'refund' | 'extend', json: unknown): Promise<Answer> {
    return this.#say(call, json);
  }
  #say(call: string, json: unknown): Promise<Answer> {
    return send(`${this.url}/flash-sale/${call}`, { method: 'POST', headers: bearer(SERVICE_SECRET), json });
  }
}

export type Token = { attestation: string; expires_at: number; device_fp: string };

/** A person with a device. */
export class Shopper {
  readonly user: string;
  readonly device: string;
  token: Token | null = null;
  /** Of the last answer that had one. */
  ticket: string | null = null;

  constructor(
    readonly url: string,
    readonly product: string,
    user: string = `user-${randomUUID()}`,
    device: string = `fp-${randomUUID()}`,
  ) {
    this.user = user;
    this.device = device;
  }

  async getToken(): Promise<Token> {
    const answer = await send(`${this.url}/flash-sale/token?device_fp=${encodeURIComponent(this.device)}`);
    if (answer.status !== 200) throw new Error(`no token: ${answer.text}`);
    this.token = answer.data as Token;
    return this.token;
  }

  /** Checks out with the key in the body, as seed B does. Fetches a token first if there is none. */
  async checkout(fields: Record<string, unknown> = {}, headers: Record<string, string> = {}): Promise<Answer> {
    return this.#checkout({ idempotency_key: randomUUID(), ...fields }, headers);
  }

  /** Checks out with the key in the header, as the IETF draft has it. */
  async checkoutWithHeader(key: string, fields: Record<string, unknown> = {}): Promise<Answer> {
    return this.#checkout(fields, { 'idempotency-key': key });
  }

  queueStatus(headers: Record<string, string> = {}): Promise<Answer> {
    const query = new URLSearchParams({ product_id: this.product, user_id: this.user });
    return send(`${this.url}/flash-sale/queue-status?${query}`, { headers });
  }

  leave(): Promise<Answer> {
    return send(`${this.url}/flash-sale/queue`, { method: 'DELETE', headers: { 'x-ticket': String(this.ticket) } });
  }

  async #checkout(fields: Record<string, unknown>, headers: Record<string, string>): Promise<Answer> {
    const token = this.token ?? (await this.getToken());
    const json = { product_id: this.product, user_id: this.user, qty: 1, ...token, ...fields };
    const answer = await send(`${this.url}/flash-sale/checkout`, { method: 'POST', headers, json });
    if (typeof answer.data.ticket === 'string') this.ticket = answer.data.ticket;
    return answer;
  }
}
