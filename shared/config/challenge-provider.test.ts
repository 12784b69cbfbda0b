import { describe, expect, it } from '@jest/globals';
import { readConfig } from './config.js';

const keys = { CHALLENGE_PROVIDER: 'turnstile', CHALLENGE_SITE_KEY: 'site', CHALLENGE_SECRET: 'secret' };
const read = (env: Record<string, string>) =>
  readConfig({ REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/x', ...env }).challengeProvider;

describe('The settings of a provider of challenges', () => {
  it('are off without keys, and name the addresses of the provider with them', () => {
    expect(read({})).toBeNull();
    expect(read(keys)).toEqual({
      ...{ name: 'turnstile', siteKey: 'site', secret: 'secret' },
      script: 'https://challenges.cloudflare.com/turnstile/v0/api.js',
      verify: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
      sources: ['https://challenges.cloudflare.com'],
    });
    expect(read({ ...keys, CHALLENGE_PROVIDER: 'hcaptcha' })).toMatchObject({
      verify: 'https://api.hcaptcha.com/siteverify',
      sources: ['https://hcaptcha.com', 'https://*.hcaptcha.com'],
    });
    expect(read({ ...keys, CHALLENGE_ORIGIN: 'https://proxy.example' })).toMatchObject({
      verify: 'https://proxy.example/turnstile/v0/siteverify',
      sources: ['https://proxy.example'],
    });
  });

  it('belong together', () => {
    const { CHALLENGE_SECRET, ...others } = keys;
    expect(() => read(others)).toThrow('CHALLENGE_SECRET is missing');
    expect(() => read({ CHALLENGE_ORIGIN: 'https://proxy.example' })).toThrow('has no effect');
    expect(() => read({ ...keys, CHALLENGE_PROVIDER: 'recaptcha' })).toThrow('must be one of turnstile, hcaptcha');
    expect(() => read({ ...keys, CHALLENGE_ORIGIN: 'https://proxy.example/path' })).toThrow('must be an origin');
  });
});
