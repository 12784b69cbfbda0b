import { LIMITS } from '../../shared/config/limits.js';
import type { PushConfig } from '../../shared/config/push.js';
import { PushSubscriptions } from '../../shared/postgres/push-subscriptions.js';
import { readPageLanguages } from '../../shared/sale-page/language-files.js';
import { EndpointConnection } from '../../shared/webhooks/endpoint-connection.js';
import { publicLookup } from '../../shared/webhooks/public-address.js';
import type { Core } from '../core.js';
import { notifyUsers, type Seal } from './push-sender.js';

/** Returns the sweep that notifies users by Web Push; null = it is not set up. */
export function pushModule({ config, log, metrics, life, clock, database }: Core): (() => Promise<void>) | null {
  const { push } = config;
  if (!push) return null;
  const languages = readPageLanguages(config.pageLanguages);
  const limits = { timeoutMs: LIMITS.push.timeoutMs, answerBytes: LIMITS.webhooks.answerBytes };
  const connection = new EndpointConnection(push.anyEndpoint, limits, publicLookup(), LIMITS.push.atOnce);
  const deps = {
    subscriptions: new PushSubscriptions(database),
    seal: () => sealWith(push),
    ...{ connection, languages, config: push, clock, metrics, log, limits: LIMITS.push },
  };
  life.add('connections to push services', { stop: () => connection.close() });
  return () => notifyUsers(deps);
}

/** Loads the library on use, because most installations have no Web Push. */
async function sealWith({ subject, publicKey, privateKey }: PushConfig): Promise<Seal> {
  const { default: webPush } = await import('web-push');
  return ({ endpoint, p256dh, auth }, { payload, topic, urgency, ttlSeconds }) => {
    const { headers, body } = webPush.generateRequestDetails({ endpoint, keys: { p256dh, auth } }, payload, {
      vapidDetails: { subject, publicKey, privateKey },
      TTL: ttlSeconds,
      contentEncoding: 'aes128gcm',
      topic,
      urgency,
    });
    const fields = Object.entries(headers).map(([name, value]) => [name, String(value)]);
    return { headers: Object.fromEntries(fields), body: body as unknown as Buffer };
  };
}
