import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';

const GIVEN = { REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/db' };
const AES = Buffer.alloc(32, 5).toString('base64');
const derOf = (namedCurve: string) =>
  generateKeyPairSync('ec', { namedCurve }).publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const EC = derOf('P-256');
const PLAY = {
  PLAY_INTEGRITY_PACKAGE: 'com.example.shop',
  PLAY_INTEGRITY_CERTIFICATES: 'ab'.repeat(32),
  PLAY_INTEGRITY_DECRYPTION_KEY: AES,
  PLAY_INTEGRITY_VERIFICATION_KEY: EC,
};

const platformsOf = (given: Record<string, string>) => readConfig({ ...GIVEN, ...given }).platforms;
function problemsOf(given: Record<string, string>): readonly string[] {
  try {
    platformsOf(given);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

test('reads the apps of Apple and of Google', () => {
  const apps = 'ABCDE12345.com.example.shop, ZZZZZ99999.com.example.other-shop';
  expect(platformsOf({ APP_ATTEST_APP_IDS: apps }).appAttest).toEqual({
    apps: [
      { team: 'ABCDE12345', bundle: 'com.example.shop' },
      { team: 'ZZZZZ99999', bundle: 'com.example.other-shop' },
    ],
    allowDevelopment: false,
  });
  const development = { APP_ATTEST_APP_IDS: 'ABCDE12345.a', APP_ATTEST_ENVIRONMENT: 'development' };
  expect(platformsOf(development).appAttest?.allowDevelopment).toBe(true);
  const colons = `${'AB:'.repeat(31)}AB`;
  const text = Buffer.from('ab'.repeat(32), 'hex').toString('base64url');
  for (const [digests, count] of [
    [PLAY.PLAY_INTEGRITY_CERTIFICATES, 1],
    [`${colons},${text}`, 2],
  ] as const) {
    const { playIntegrity } = platformsOf({ ...PLAY, PLAY_INTEGRITY_CERTIFICATES: digests });
    expect(playIntegrity).toMatchObject({ packageName: 'com.example.shop', certificates: Array(count).fill(text) });
  }
  const changing = { ...PLAY, PLAY_INTEGRITY_DECRYPTION_KEY: `${AES},${AES}` };
  expect(platformsOf(changing).playIntegrity?.decryptionKeys.length).toBe(2);
});

test('reports what is wrong with platform settings, without the key', () => {
  const wrong = {
    APP_ATTEST_APP_IDS: 'com.example.shop',
    APP_ATTEST_ENVIRONMENT: 'sandbox',
    PLAY_INTEGRITY_PACKAGE: 'shop',
    PLAY_INTEGRITY_CERTIFICATES: 'abab',
    PLAY_INTEGRITY_DECRYPTION_KEY: 'c2hvcnQ=',
    PLAY_INTEGRITY_VERIFICATION_KEY: derOf('P-384'),
  };
  const problems = problemsOf(wrong);
  expect(problems.map((problem) => problem.split(/[ :]/)[0]).sort()).toEqual(Object.keys(wrong).sort());
  expect(problems.join()).not.toContain('c2hvcnQ=');
});

test('requires all settings of Play Integrity or none', () => {
  for (const name of Object.keys(PLAY)) {
    const { [name as keyof typeof PLAY]: _, ...rest } = PLAY;
    expect(problemsOf(rest)).toEqual([expect.stringMatching(new RegExp(`^${name} is missing`))]);
  }
  expect(platformsOf({}).playIntegrity).toBeNull();
});
