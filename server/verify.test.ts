import { createHmac, createSecretKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { PayLinks } from '../api/claim/pay-links.js';
import type { CampaignPolicy } from '../shared/domain/campaign-policy.js';
import { verifyPayLink, verifyWebhook, WebhookError, type WebhookHeaders } from './verify.js';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);
const KEYS = `c2:${NEW.toString('base64')},c1:${OLD.toString('base64')}`;
const EXPIRES = new Date('2031-01-01T00:05:00.000Z');
const BEFORE = new Date('2031-01-01T00:04:59.000Z');
const TEMPLATE =
  'https://shop.example/pay/{product_id}?order={order_id}&id={reservation_id}&u={user_id}&n={qty}&until={expires_at}&sig={signature}';

function linkOf(template: string, key: Buffer = NEW, id = 'c2', qty = 2): string | null {
  const policies = { of: () => ({ checkoutUrl: template }) as CampaignPolicy };
  const terms = {
    promised: async () => {
      throw new Error('no terms are read');
    },
  };
  return new PayLinks(policies, terms, [{ id, key: createSecretKey(key) }], () => {}).linkOf({
    product: 'sale:1',
    user: 'ann@example.com',
    reservationId: '0190-r',
    orderId: 'ord_1',
    qty,
    expiresAtMs: EXPIRES.getTime(),
  });
}

describe('verifyPayLink', () => {
  it('accepts a link as it was made, its path alone, and another origin', () => {
    const link = String(linkOf(TEMPLATE));
    expect(link).toMatch(
      /^https:\/\/shop\.example\/pay\/sale%3A1\?order=ord_1&id=0190-r&u=ann%40example\.com&n=2&until=2031-01-01T00%3A05%3A00\.000Z&sig=v1\.c2\.1924992300\.[\w-]{43}$/,
    );
    const path = link.slice('https://shop.example'.length);
    for (const url of [link, path, `http://127.0.0.1:3000${path}`])
      expect(verifyPayLink(url, KEYS, BEFORE)).toEqual({ valid: true, expiresAt: EXPIRES });
  });

  it('rejects a link with any other value, another order of values, or a second signature', () => {
    const link = String(linkOf(TEMPLATE));
    const changed = [
      link.replace('ord_1', 'ord_2'),
      link.replace('n=2', 'n=3'),
      link.replace('ann', 'bob'),
      link.replace('.1924992300.', '.1924992301.'),
      link.replace('/pay/', '/pay2/'),
      link.replace('order=ord_1&id=0190-r', 'id=0190-r&order=ord_1'),
      `${link}&order=ord_2`,
    ];
    for (const url of changed)
      expect(verifyPayLink(url, KEYS, BEFORE)).toEqual({ valid: false, reason: 'wrong_signature' });
    const [signature] = /v1\.[\w.-]+/.exec(link) ?? [];
    for (const url of [`${link}&sig=${signature}`, 'https://shop.example/pay', ''])
      expect(verifyPayLink(url, KEYS, BEFORE)).toEqual({ valid: false, reason: 'malformed' });
  });

  it('rejects a link that is no text, and keys that are missing', () => {
    const link = String(linkOf(TEMPLATE));
    for (const url of [undefined, null, [link], {}, 1])
      expect(verifyPayLink(url as string, KEYS, BEFORE)).toEqual({ valid: false, reason: 'malformed' });
    for (const keys of [undefined, null, '', [KEYS]])
      expect(verifyPayLink(link, keys as string, BEFORE)).toEqual({ valid: false, reason: 'unknown_key' });
  });

  it('rejects an expired link, and accepts the links of an earlier key until it is removed', () => {
    expect(verifyPayLink(String(linkOf(TEMPLATE)), KEYS, EXPIRES)).toEqual({ valid: false, reason: 'expired' });
    const old = String(linkOf(TEMPLATE, OLD, 'c1'));
    expect(verifyPayLink(old, KEYS, BEFORE).valid).toBe(true);
    expect(verifyPayLink(old, `c2:${NEW.toString('base64')}`, BEFORE)).toEqual({
      valid: false,
      reason: 'unknown_key',
    });
  });
});

describe('PayLinks', () => {
  it('makes no link without a value that the template needs', () => {
    expect(linkOf('https://shop.example/pay?n={qty}', NEW, 'c2', Number.NaN)).toBeNull();
    expect(linkOf('https://shop.example/pay?o={order_id}', NEW, 'c2', Number.NaN)).toBe(
      'https://shop.example/pay?o=ord_1',
    );
  });
});

describe('verifyWebhook', () => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const body = JSON.stringify({ type: 'dev.doorbuster.redemption.reserved.v1' });
  const at = new Date('2031-01-01T00:00:00Z');
  const headers = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(at.getTime() / 1000),
    'webhook-signature': `v1,AAAA ${new Webhook(secret).sign('evt_1', at, body)}`,
  };

  it('returns the event of a genuine webhook', () => {
    expect(verifyWebhook(body, headers, secret, at)).toEqual({ type: 'dev.doorbuster.redemption.reserved.v1' });
  });

  it('rejects another body, another id, another secret, an old one and a missing header', () => {
    const late = new Date(at.getTime() + 301_000);
    expect(() => verifyWebhook(`${body} `, headers, secret, at)).toThrow('does not match');
    expect(() => verifyWebhook(body, { ...headers, 'webhook-id': 'evt_2' }, secret, at)).toThrow('does not match');
    expect(() => verifyWebhook(body, headers, `whsec_${Buffer.alloc(24).toString('base64')}`, at)).toThrow('match');
    expect(() => verifyWebhook(body, headers, secret, late)).toThrow('too old');
    expect(() => verifyWebhook(body, { ...headers, 'webhook-signature': undefined }, secret, at)).toThrow('missing');
  });

  it('rejects a body that is missing or was parsed, and headers that are missing', () => {
    for (const none of [undefined, null, {}, [], 5, Object.create(null)])
      expect(() => verifyWebhook(none as string, headers, secret, at)).toThrow(
        new WebhookError('the raw body is missing, or was parsed before'),
      );
    for (const none of [undefined, null])
      expect(() => verifyWebhook(body, none as unknown as WebhookHeaders, secret, at)).toThrow(WebhookError);
    expect(verifyWebhook(new TextEncoder().encode(body) as Buffer, headers, secret, at)).toEqual(JSON.parse(body));
  });

  it('rejects a genuine body that is no event', () => {
    for (const text of ['null', '5', '"x"', '[]', '', '{']) {
      const signed = { ...headers, 'webhook-signature': new Webhook(secret).sign('evt_1', at, text) };
      expect(() => verifyWebhook(text, signed, secret, at)).toThrow(WebhookError);
    }
  });

  it('rejects every webhook with a secret that is empty or too short, which a stranger could guess', () => {
    const key = (length: number) => Buffer.alloc(length, 7).toString('base64');
    for (const weak of ['', 'whsec_', '  ', `whsec_${key(23)}`, undefined as unknown as string]) {
      const bytes = Buffer.from(String(weak ?? '').replace(/^whsec_/, ''), 'base64');
      const mac = createHmac('sha256', bytes)
        .update(`evt_1.${at.getTime() / 1000}.${body}`)
        .digest('base64');
      const forged = { ...headers, 'webhook-signature': `v1,${mac}` };
      expect(() => verifyWebhook(body, forged, weak, at)).toThrow('too short');
    }
  });
});
