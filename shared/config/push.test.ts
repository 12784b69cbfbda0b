import { createECDH } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { pushEndpointProblem } from '../webhooks/push-endpoint.js';
import { readConfig } from './config.js';

const secretKey = Buffer.alloc(32, 7);
const pair = createECDH('prime256v1');
pair.setPrivateKey(secretKey);
const keys = {
  VAPID_SUBJECT: 'mailto:ops@shop.example',
  VAPID_PUBLIC_KEY: pair.getPublicKey('base64url'),
  VAPID_PRIVATE_KEY: secretKey.toString('base64url'),
};
const read = (env: Record<string, string>) =>
  readConfig({ REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/x', ...env });

describe('The settings of Web Push', () => {
  it('are off without keys, and on with all three', () => {
    expect(read({}).push).toBe(null);
    expect(read(keys).push).toMatchObject({ publicKey: keys.VAPID_PUBLIC_KEY, anyEndpoint: false });
    expect(read({ ...keys, NODE_ENV: 'development' }).push?.anyEndpoint).toBe(true);
  });

  it('belong together, and the keys are a pair', () => {
    const { VAPID_SUBJECT, ...others } = keys;
    expect(() => read(others)).toThrow('VAPID_SUBJECT is missing');
    const another = Buffer.alloc(32, 8).toString('base64url');
    expect(() => read({ ...keys, VAPID_PRIVATE_KEY: another })).toThrow('are not a pair');
    const short = () => read({ ...keys, VAPID_PRIVATE_KEY: 'c2hvcnQ' });
    expect(short).toThrow('VAPID_PRIVATE_KEY: must be 32 bytes');
    expect(short).not.toThrow('c2hvcnQ');
    expect(() => read({ ...keys, PUSH_SERVICES: 'https://push.example' })).toThrow('PUSH_SERVICES');
  });
});

describe('The endpoint of a subscription', () => {
  const settings = { services: ['push.example', '*.push.example'], anyEndpoint: false };

  it('is at a named push service', () => {
    expect(pushEndpointProblem('https://push.example/a', settings)).toBe(null);
    expect(pushEndpointProblem('https://eu.push.example/a', settings)).toBe(null);
    for (const wrong of [
      'http://push.example/a',
      'https://push.example:8443/a',
      'https://user@push.example/a',
      'https://evilpush.example/a',
      'https://push.example.evil.example/a',
      'https://127.0.0.1/a',
      'push.example',
    ])
      expect([wrong, pushEndpointProblem(wrong, settings)]).toEqual([wrong, expect.any(String)]);
  });

  it('is anywhere in development', () => {
    const anywhere = { ...settings, anyEndpoint: true };
    expect(pushEndpointProblem('http://127.0.0.1:1/a', anywhere)).toBe(null);
    expect(pushEndpointProblem('file:///etc/passwd', anywhere)).toMatch('must be a URL starting with');
  });
});
