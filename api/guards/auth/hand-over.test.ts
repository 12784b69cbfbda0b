import { createHmac, createSecretKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { HandOvers } from './hand-over.js';

const NOW_S = 1_800_000_000;
const LIFE_S = 3_600;
const keys = [
  { id: 's1', key: createSecretKey(Buffer.alloc(32, 1)) },
  { id: 's0', key: createSecretKey(Buffer.alloc(32, 2)) },
];
const handOvers = new HandOvers(keys, { nowMs: () => NOW_S * 1000 }, LIFE_S * 1000);

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
function sign(payload: unknown, { id, key } = keys[0] as (typeof keys)[0], prefix = 'shopper-v1'): string {
  const signed = `${prefix}.${id}.${typeof payload === 'string' ? payload : encode(payload)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}
const ann = { user_id: 'ann', expires_at: NOW_S + 60 };

describe('HandOvers', () => {
  it('reads user, campaign and attributes of what any of its keys has signed', () => {
    expect(handOvers.verify(sign(ann))).toEqual({ user: 'ann', product: null, attributes: {} });
    const whole = { ...ann, product_id: 'sale', attributes: { tier: 'gold' }, identity_level: 2 };
    expect(handOvers.verify(sign(whole, keys[1]))).toEqual({
      user: 'ann',
      product: 'sale',
      attributes: { tier: 'gold' },
      identity_level: 2,
    });
  });

  it('refuses what is expired, or valid for longer than a hand-over may be', () => {
    const lasting = (seconds: number) => handOvers.verify(sign({ ...ann, expires_at: NOW_S + seconds }));
    expect(lasting(1)).not.toBeNull();
    expect(lasting(LIFE_S)).not.toBeNull();
    for (const seconds of [0, -1, LIFE_S + 1, 1e9]) expect(lasting(seconds)).toBeNull();
  });

  it('refuses another key, purpose or version', () => {
    expect(handOvers.verify(sign(ann, { id: 's1', key: createSecretKey(Buffer.alloc(32, 9)) }))).toBeNull();
    expect(handOvers.verify(sign(ann, { id: 's2', key: createSecretKey(Buffer.alloc(32, 1)) }))).toBeNull();
    expect(handOvers.verify(sign(ann, { id: '__proto__', key: createSecretKey(Buffer.alloc(32, 1)) }))).toBeNull();
    for (const prefix of ['shopper-v2', 'ticket', '']) expect(handOvers.verify(sign(ann, keys[0], prefix))).toBeNull();
  });

  it('refuses payloads without a user or an expiry, or with anything else', () => {
    const wrong = [
      { user_id: 'ann' },
      { expires_at: NOW_S + 60 },
      { ...ann, expires_at: String(NOW_S + 60) },
      { ...ann, expires_at: NOW_S + 0.5 },
      { ...ann, user_id: 'a|b' },
      { ...ann, user_id: 7 },
      { ...ann, product: 'sale' },
      { ...ann, attributes: ['gold'] },
      null,
      'ann',
      [],
    ];
    for (const payload of wrong) expect([payload, handOvers.verify(sign(payload))]).toEqual([payload, null]);
    expect(handOvers.verify(sign(Buffer.from('{').toString('base64url')))).toBeNull();
  });

  it('takes only the one text that each hand-over has', () => {
    const text = sign(ann);
    const mac = text.slice(text.lastIndexOf('.') + 1);
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    // 43 characters hold 258 bits for 256: the last one has three other spellings.
    const last = alphabet.indexOf(mac.slice(-1));
    const spellings = [1, 2, 3].map((bits) => text.slice(0, -1) + alphabet[last ^ bits]);
    const others = [
      `${text}=`,
      `${text}==`,
      `${text}!!!`,
      ` ${text}`,
      `${text} `,
      text.replaceAll('-', '+'),
      `${text}.`,
    ];
    expect(handOvers.verify(text)).not.toBeNull();
    for (const other of [...spellings, ...others.filter((one) => one !== text)]) {
      expect([other, handOvers.verify(other)]).toEqual([other, null]);
    }
    // A signed payload in another encoding.
    expect(handOvers.verify(sign(`${encode(ann)}=`))).toBeNull();
    for (const malformed of ['', '.', '...', 'shopper-v1', 'shopper-v1.s1', `shopper-v1.s1.${encode(ann)}`]) {
      expect(handOvers.verify(malformed)).toBeNull();
    }
  });
});
