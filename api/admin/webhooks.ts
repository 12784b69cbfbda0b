import { uuidv7 } from 'uuidv7';
import { cloudEvent, type PublishedEvent, TEST_EVENT_TYPE } from '../../shared/contracts/events.js';
import type { PostResult } from '../../shared/contracts/post-result.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { WebhookAttempt, WebhookAttempts } from '../../shared/postgres/webhook-attempts.js';
import type { Backlog, WebhookEndpoint, WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import type { WebhookParking } from '../../shared/postgres/webhook-parking.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import { EndpointConnection, type PostLimits } from '../../shared/webhooks/endpoint-connection.js';
import { endpointHostProblem, endpointUrlProblem } from '../../shared/webhooks/public-address.js';
import { sendEvent } from '../../shared/webhooks/send-event.js';
import { invalidFields } from '../http/validate.js';
import type { ReplayBody, WebhookBody, WebhookChangeBody } from './webhook.contract.js';
import type { WebhookReplays } from './webhook-replays.js';
import { newWebhookSecret } from './webhook-secrets.js';

export type Operator = { name: string; requestId: string };
export type EndpointState = WebhookEndpoint & { backlog: Backlog };

export type WebhooksDeps = {
  database: Database;
  endpoints: WebhookEndpoints;
  replays: WebhookReplays;
  parking: WebhookParking;
  attempts: WebhookAttempts;
  campaigns: Pick<CampaignsTable, 'find'>;
  clock: { nowMs(): number };
  source: string;
  queues: Pick<JobQueues, 'add'>;
  limits: PostLimits & { allowPrivate: boolean; maxEndpoints: number };
};

/** Changes of webhook endpoints by operators. Each has an audit entry without secrets. */
export class Webhooks {
  constructor(readonly deps: WebhooksDeps) {}

  get endpoints(): WebhookEndpoints {
    return this.deps.endpoints;
  }

  /** Creates an endpoint. @returns the endpoint with its secrets, which no later call returns */
  async create(body: WebhookBody, operator: Operator): Promise<EndpointState> {
    await this.#requireUrl(body.url);
    const { maxEndpoints } = this.deps.limits;
    if ((await this.endpoints.list()).length >= maxEndpoints)
      throw new Problem('webhook_limit', `At most ${maxEndpoints} endpoints are possible.`);
    const wanted = {
      id: uuidv7(),
      url: body.url,
      types: body.types,
      campaignIds: await this.#campaignIds(body.campaigns),
      secrets: body.secrets ?? [newWebhookSecret()],
    };
    const created = await this.deps.database.transaction(async (client) => {
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
    if (body.url !== undefined) await this.#requireUrl(body.url);
    const before = await this.#find(id);
    const change = {
      ...(body.url === undefined ? {} : { url: body.url }),
      ...(body.types === undefined ? {} : { types: body.types }),
      ...(body.campaigns === undefined ? {} : { campaignIds: await this.#campaignIds(body.campaigns) }),
      ...(body.secrets === undefined ? {} : { secrets: body.secrets }),
      ...(body.enabled === undefined ? {} : { enabled: body.enabled }),
    };
    const changed = await this.deps.database.transaction(async (client) => {
      const endpoint = await this.endpoints.change(id, change, client);
      if (endpoint) {
        await this.deps.parking.retryAll(id, client);
        const after = { ...auditView(endpoint), secrets_changed: body.secrets !== undefined };
        await audit(client, operator, 'webhook.change', auditView(before), after);
      }
      return endpoint;
    });
    if (!changed) throw notFound();
    await this.#deliver(id);
    return this.#state(changed);
  }

  async remove(id: string, operator: Operator): Promise<void> {
    const before = await this.#find(id);
    await this.deps.database.transaction(async (client) => {
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
    const replayed = await this.deps.database.transaction(async (client) => {
      const events = await this.deps.replays.request(endpoint, wanted, client);
      if (events === 0 && 'event_id' in body)
        throw new Problem(
          'event_not_found',
          'The event was not delivered to this endpoint, or it is no longer stored.',
        );
      await audit(client, operator, 'webhook.replay', null, { endpoint_id: id, ...body, events });
      return events;
    });
    await this.#deliver(id);
    return replayed;
  }

  /** Queues a delivery. Errors are ignored, because the sweep `publish` finds the endpoint as well, only later. */
  async #deliver(endpointId: string): Promise<void> {
    await this.deps.queues.add('deliver', { endpointId }).catch(() => {});
  }

  /** Attempts to deliver events, newest first. @param before number of the last attempt of the page before */
  async attempts(
    id: string,
    { delivered, before, limit }: { delivered: boolean | null; before: number | null; limit: number },
  ): Promise<WebhookAttempt[]> {
    await this.#find(id);
    return this.deps.attempts.list(id, delivered, before, limit);
  }

  /** Sends a test event now, whether or not the endpoint is enabled. A failure changes nothing. */
  async test(id: string): Promise<{ event: PublishedEvent; result: PostResult }> {
    const { attempts, clock, source, limits } = this.deps;
    const endpoint = await this.#find(id);
    const event: PublishedEvent = {
      id: uuidv7(),
      type: TEST_EVENT_TYPE,
      subject: id,
      occurredAt: new Date(clock.nowMs()),
      trace: null,
      data: { endpoint_id: id },
    };
    const connection = new EndpointConnection(limits.allowPrivate, limits);
    try {
      const signed = { ...event, body: cloudEvent(event, source) };
      const result = await sendEvent(connection, endpoint, signed, clock.nowMs());
      await attempts.insert(id, event, result);
      return { event, result };
    } finally {
      connection.close();
    }
  }

  /** @throws Problem 400 for an unknown campaign */
  async #campaignIds(named: readonly string[] | null): Promise<string[] | null> {
    if (named === null) return null;
    const ids: string[] = [];
    for (const [i, name] of named.entries()) {
      const campaign = await this.deps.campaigns.find(name);
      if (!campaign)
        throw invalidFields({ pointer: `#/campaigns/${i}`, detail: 'no campaign has this id or product id' });
      ids.push(campaign.id);
    }
    return ids;
  }

  async #state(endpoint: WebhookEndpoint): Promise<EndpointState> {
    return { ...endpoint, backlog: await this.endpoints.backlog(endpoint) };
  }

  async #find(id: string): Promise<WebhookEndpoint> {
    const endpoint = await this.endpoints.find(id);
    if (!endpoint) throw notFound();
    return endpoint;
  }

  async #requireUrl(url: string): Promise<void> {
    const { allowPrivate } = this.deps.limits;
    const detail = endpointUrlProblem(url, allowPrivate) ?? (await endpointHostProblem(url, allowPrivate));
    if (detail === null) return;
    throw invalidFields({ pointer: '#/url', detail });
  }
}

function auditView({ id, url, types, campaignIds, enabled, secrets }: WebhookEndpoint): Record<string, unknown> {
  return { endpoint_id: id, url, types, campaigns: campaignIds, enabled, secret_count: secrets.length };
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
