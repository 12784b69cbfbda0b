import { Agent, request } from 'node:http';
import type { Cluster } from '../cluster/cluster.js';
import { ADMIN_SECRET, SERVICE_SECRET } from '../cluster/cluster.js';
import type { Call, CallKind, History } from '../history.js';

/** A request without a response for so long is given up. The judge's limit is lower. */
const GIVE_UP_MS = 20_000;
/** An API closes a connection that was idle for 65 s; a client gives it up earlier, so that no request meets that. */
const IDLE_MS = 40_000;
/** Headers of a response that the judge looks at. */
const KEPT_HEADERS = ['content-type', 'retry-after', 'x-request-id', 'idempotent-replayed', 'location'] as const;

export type CallSpec = {
  kind: CallKind;
  method: string;
  path: string;
  product: string;
  api: string;
  json?: unknown;
  /** A body that is not JSON. */
  csv?: string;
  as?: 'admin' | 'service';
  headers?: Record<string, string>;
} & Partial<Pick<Call, 'user' | 'key' | 'keyIn' | 'reservation' | 'detail' | 'final'>>;

export type Response = { status: number | null; data: Record<string, unknown>; code: string; call: Call };

const SECRETS = { admin: ADMIN_SECRET, service: SERVICE_SECRET };

/** Sends the calls of the crowd and records each of them with its response. */
export class HttpClient {
  readonly #agents = new Map<string, Agent>();

  constructor(
    readonly cluster: Cluster,
    readonly history: History,
  ) {}

  async send(spec: CallSpec): Promise<Response> {
    const { api, json, kind, product, user, key, keyIn, reservation, detail, final } = spec;
    const call: Call = {
      type: 'call',
      n: this.history.nextCall(),
      kind,
      at: this.history.now(),
      end: 0,
      api,
      process: this.cluster.node(api).process,
      product,
      ...(user === undefined ? {} : { user }),
      ...(key === undefined ? {} : { key }),
      ...(keyIn === undefined ? {} : { keyIn }),
      ...(reservation === undefined ? {} : { reservation }),
      ...(detail === undefined ? {} : { detail }),
      ...(json === undefined ? {} : { body: json }),
      ...(final === undefined ? {} : { final }),
      status: null,
    };
    await this.#exchange(spec, call);
    call.end = this.history.now();
    this.history.call(call);
    const body = parse(call.text);
    return { status: call.status, data: (body.data ?? {}) as Record<string, unknown>, code: String(body.code), call };
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  #agent(api: string): Agent {
    const agent = this.#agents.get(api) ?? new Agent({ keepAlive: true, maxSockets: 256, timeout: IDLE_MS });
    this.#agents.set(api, agent);
    return agent;
  }

  #exchange(spec: CallSpec, call: Call): Promise<void> {
    const text = spec.csv ?? (spec.json === undefined ? null : JSON.stringify(spec.json));
    const headers: Record<string, string | number> = { ...spec.headers };
    if (text !== null) {
      headers['content-type'] = spec.csv === undefined ? 'application/json' : 'text/csv';
      headers['content-length'] = Buffer.byteLength(text);
    }
    if (spec.as) headers.authorization = `Bearer ${SECRETS[spec.as]}`;
    return new Promise((resolve) => {
      const fail = (error: string) => {
        call.error ??= error;
        resolve();
      };
      const req = request(
        `${this.cluster.urlOf(spec.api)}${spec.path}`,
        { method: spec.method, agent: this.#agent(spec.api), headers },
        (res) => {
          let received = '';
          res.setEncoding('utf8').on('data', (chunk) => {
            received += chunk;
          });
          res.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message));
          res.on('close', () => {
            if (!res.complete) return fail('the response is incomplete');
            call.status = res.statusCode ?? 0;
            call.text = received;
            call.headers = Object.fromEntries(
              KEPT_HEADERS.flatMap((name) =>
                res.headers[name] === undefined ? [] : [[name, String(res.headers[name])]],
              ),
            );
            resolve();
          });
        },
      );
      req.setTimeout(GIVE_UP_MS, () => {
        fail('no response');
        req.destroy();
      });
      req.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message));
      req.end(text ?? undefined);
    });
  }
}

function parse(text: string | undefined): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text ?? '');
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
