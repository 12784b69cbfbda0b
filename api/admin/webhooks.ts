import { uuidv7 } from 'uuidv7';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { WebhookEndpoint, WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { endpointUrlProblem } from '../../shared/webhooks/public-address.js';
import { invalidFields } from '../http/validate.js';
import type { ReplayBody, WebhookBody, WebhookChangeBody } from './webhook.contract.js';
import { newWebhookSecret } from './webhook-secrets.js';

export type Operator = { name: string; requestId: string };
export type EndpointState = WebhookEndpoint & { backlog: { events: number; replays: number } };

/** Changes of webhook endpoints by operators. Each has an audit entry without secrets. */
export class Webhooks {
  constructor(
    readonly database: Database,
    readonly endpoints: WebhookEndpoints,
    readonly limits: { allowPrivate: boolean; maxEndpoints: number },
  ) {}

  /** Creates an endpoint. @returns the endpoint with its secrets, which no later call returns */
  async create(body: WebhookBody, operator: Operator): Promise<EndpointState> {
    this.#requireUrl(body.url);
    if ((await this.endpoints.list()).length >= this.limits.maxEndpoints)
      throw new Problem('webhook_limit', `At most ${this.limits.maxEndpoints} endpoints are possible.`);
    const wanted = {
      id: uuidv7(),
      url: body.url,
      types: body.types,
      secrets: body.secrets ?? [newWebhookSecret()],
    };
    const created = await this.database.transaction(async (client) => {
      const endpoint = await this.endpoints.insert(wanted, client);
      await audit(client, operator, 'webhook.create', null, auditView(endpoint));
      return endpoint;
    });
    return this.#state(created);
  }

  async list(): Promise<EndpointState[]> {
    const all = await this.endpoints.list();
    const states: EndpointState[] = [];
    for (const endpoint of all) states.push(await this.#state(endpoint));
    return states;
  }

  async read(id: string): Promise<EndpointState> {
    return this.#state(await this.#find(id));
  }

  async change(id: string, body: WebhookChangeBody, operator: Operator): Promise<EndpointState> {
    if (body.url !== undefined) this.#requireUrl(body.url);
    const before = await this.#find(id);
    const change = {
      ...(body.url === undefined ? {} : { url: body.url }),
      ...(body.types === undefined ? {} : { types: body.types }),
      ...(body.secrets === undefined ? {} : { secrets: body.secrets }),
      ...(body.enabled === undefined ? {} : { enabled: body.enabled }),
    };
    const changed = await this.database.transaction(async (client) => {
      const endpoint = await this.endpoints.change(id, change, client);
      if (endpoint) {
        const after = { ...auditView(endpoint), secrets_changed: body.secrets !== undefined };
        await audit(client, operator, 'webhook.change', auditView(before), after);
      }
      return endpoint;
    });
    if (!changed) throw notFound();
    return this.#state(changed);
  }

  async remove(id: string, operator: Operator): Promise<void> {
    const before = await this.#find(id);
    await this.database.transaction(async (client) => {
      if (await this.endpoints.remove(id, client)) {
        await audit(client, operator, 'webhook.remove', auditView(before), null);
      }
    });
  }

  /** Schedules a replay. @returns number of events that will be delivered again */
  async replay(id: string, body: ReplayBody, operator: Operator): Promise<number> {
    const endpoint = await this.#find(id);
    if (!endpoint.enabled)
      throw new Problem('webhook_disabled', `The endpoint is disabled: ${endpoint.disabledReason}.`);
    const wanted =
      'event_id' in body ? { eventId: body.event_id } : { from: new Date(body.from), to: new Date(body.to) };
    return this.database.transaction(async (client) => {
      const events = await this.endpoints.replay(endpoint, wanted, client);
      if (events === 0 && 'event_id' in body)
        throw new Problem(
          'event_not_found',
          'The event was not delivered to this endpoint, or it is no longer stored.',
        );
      await audit(client, operator, 'webhook.replay', null, { endpoint_id: id, ...body, events });
      return events;
    });
  }

  async #state(endpoint: WebhookEndpoint): Promise<EndpointState> {
    return { ...endpoint, backlog: await this.endpoints.backlog(endpoint) };
  }

  async #find(id: string): Promise<WebhookEndpoint> {
    const endpoint = await this.endpoints.find(id);
    if (!endpoint) throw notFound();
    return endpoint;
  }

  #requireUrl(url: string): void {
    const detail = endpointUrlProblem(url, this.limits.allowPrivate);
    if (detail === null) return;
    throw invalidFields({ pointer: '#/url', detail });
  }
}

function auditView({ id, url, types, enabled, secrets }: WebhookEndpoint): Record<string, unknown> {
  return { endpoint_id: id, url, types, enabled, secret_count: secrets.length };
}

function audit(
  client: Queryable,
  operator: Operator,
  action: string,
  before: Record<string, unknown> | null,
  after: Record<string, unknown> | null,
): Promise<void> {
  const entry = { actor: operator.name, action, campaignId: null, before, after, requestId: operator.requestId };
  return writeAudit(client, entry);
}

const notFound = () => new Problem('webhook_not_found', 'No webhook endpoint has this id.');
