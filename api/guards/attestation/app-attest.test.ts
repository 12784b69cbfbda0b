import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import * as library from 'node-app-attest';
import { projectRoot } from '../../../shared/config/project-root.js';
import type { DeviceId } from '../../../shared/domain/ids.js';
import { attestedKey } from './app-attest.js';

// Attestations by Apple for real phones, from the tests of the library; the root is Apple's. Apple's documented example
// cannot be used, because it signs the challenge without the hash that apps have to compute.
const recorded = (environment: string) => {
  const fixtures = join(projectRoot(), 'node_modules/node-app-attest/test/fixtures');
  return JSON.parse(readFileSync(join(fixtures, `attestation-${environment}.json`), 'utf8')) as {
    attestation: string;
    challenge: string;
    keyId: string;
  };
};
const app = { team: 'V8H6LQ9448', bundle: 'io.uebelacker.AppAttestExample' };
const device = 'fp' as DeviceId;
const judge = (
  environment: string,
  config: { allowDevelopment?: boolean; apps?: (typeof app)[] } = {},
  changed = {},
) => {
  const { attestation, challenge, keyId } = { ...recorded(environment), ...changed };
  const nonce = Buffer.from(challenge, 'base64').toString();
  const given = { apps: [app], allowDevelopment: false, ...config };
  return attestedKey(library, given, nonce, keyId, attestation, device);
};

test('accepts an attestation that Apple has signed for the app, and returns its key', () => {
  const known = { publicKey: expect.stringContaining('BEGIN PUBLIC KEY'), app: `${app.team}.${app.bundle}`, device };
  expect(judge('production')).toEqual(known);
  expect(judge('development')).toBeNull();
  expect(judge('development', { allowDevelopment: true })).toEqual(known);
  expect(judge('production', { apps: [{ ...app, bundle: 'com.example.other' }, app] })).toEqual(known);
});

test('rejects another app, team, key or challenge, and any changed byte', () => {
  expect(judge('production', { apps: [{ ...app, bundle: 'com.example.other' }] })).toBeNull();
  expect(judge('production', { apps: [{ ...app, team: 'AAAAAAAAAA' }] })).toBeNull();
  expect(judge('production', {}, { keyId: recorded('development').keyId })).toBeNull();
  expect(judge('production', {}, { challenge: recorded('development').challenge })).toBeNull();
  const bytes = Buffer.from(recorded('production').attestation, 'base64');
  // In the certificate of the phone, in the intermediate certificate and in the signed data.
  for (const at of [100, 700, 900, 1_200, bytes.length - 10]) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect([at, judge('production', {}, { attestation: changed.toString('base64') })]).toEqual([at, null]);
  }
});
