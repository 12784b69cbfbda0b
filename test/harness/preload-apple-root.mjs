// Preloaded into a process of ours (NODE_OPTIONS=--import): the certificate of Apple's root, which is in the library
// that judges App Attest, is the one in the file named by TEST_APPLE_ROOT. Everything else is judged as it is.
import crypto from 'node:crypto';
import { readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const root = readFileSync(String(process.env.TEST_APPLE_ROOT));
const Real = crypto.X509Certificate;

class Certificate extends Real {
  /** @param {string | Buffer} given */
  constructor(given) {
    const isAppleRoot = typeof given === 'string' && new Real(given).subject.includes('Apple App Attestation Root CA');
    super(isAppleRoot ? root : given);
  }
}
Object.assign(crypto, { X509Certificate: Certificate });
syncBuiltinESMExports();
