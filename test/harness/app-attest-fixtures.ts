import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';

// An Apple of our own: it signs what App Attest signs, in the same form, under a root of the test. The documents of
// Apple that the forms are taken from: "Validating apps that connect to your server", "Attestation object validation
// guide".

const sha256 = (...parts: (string | Buffer)[]) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** One value of DER: tag, length, contents. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const contents = Buffer.concat(parts);
  const { length } = contents;
  const lengths = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...lengths]), contents]);
}
const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const octets = (contents: Buffer) => der(0x04, contents);
const bits = (contents: Buffer) => der(0x03, Buffer.from([0]), contents);
const number = (value: number) => der(0x02, Buffer.from([value]));
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const utcTime = (date: Date) =>
  der(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`, 'latin1'));

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
const named = (commonName: string) => sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(commonName)))));
/** 1.2.840.113635.100.8.2 */
const NONCE_EXTENSION = '2a864886f763640802';

type Issuer = { name: string; key: KeyObject };

function certificate(subject: string, subjectKey: KeyObject, issuer: Issuer, nonce?: Buffer): Buffer {
  const dayMs = 86_400_000;
  const [from, to] = [new Date(Date.now() - dayMs), new Date(Date.now() + dayMs)];
  const extension = nonce && sequence(oid(NONCE_EXTENSION), octets(sequence(der(0xa1, octets(nonce)))));
  const toBeSigned = sequence(
    der(0xa0, number(2)),
    number(7),
    ECDSA_WITH_SHA256,
    named(issuer.name),
    sequence(utcTime(from), utcTime(to)),
    named(subject),
    subjectKey.export({ type: 'spki', format: 'der' }),
    ...(extension ? [der(0xa3, sequence(extension))] : []),
  );
  return sequence(toBeSigned, ECDSA_WITH_SHA256, bits(sign('sha256', toBeSigned, issuer.key)));
}

/** CBOR, as far as App Attest goes: texts, bytes, lists and maps. */
function cbor(value: string | Buffer | readonly unknown[] | Record<string, unknown>): Buffer {
  const head = (major: number, length: number) =>
    Buffer.from(
      length < 24
        ? [(major << 5) | length]
        : length < 256
          ? [(major << 5) | 24, length]
          : [(major << 5) | 25, length >> 8, length & 255],
    );
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)]);
  const members = Object.entries(value as Record<string, Buffer>);
  return Buffer.concat([head(5, members.length), ...members.flatMap(([name, member]) => [cbor(name), cbor(member)])]);
}

const ecKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const INTERMEDIATE = 'Apple App Attestation CA 1';

/** Vouches for keys of phones. */
export class TestApple {
  readonly #root = ecKey();
  readonly #intermediate = ecKey();
  readonly rootCertificate: Buffer;
  readonly intermediateCertificate: Buffer;

  constructor() {
    const root = { name: 'Apple App Attestation Root CA', key: this.#root.privateKey };
    this.rootCertificate = certificate(root.name, this.#root.publicKey, root);
    this.intermediateCertificate = certificate(INTERMEDIATE, this.#intermediate.publicKey, root);
  }

  /** What makes a process of ours trust this Apple instead of the real one. */
  trustedBy(): NodeJS.ProcessEnv {
    const folder = mkdtempSync(join(tmpdir(), 'doorbuster-apple-'));
    atEnd('the root of Apple', () => rmSync(folder, { recursive: true }));
    const file = join(folder, 'root.der');
    writeFileSync(file, this.rootCertificate);
    const preload = pathToFileURL(join(projectRoot(), 'test/harness/preload-apple-root.mjs')).href;
    return { NODE_OPTIONS: `--import=${preload}`, TEST_APPLE_ROOT: file };
  }

  certify(key: KeyObject, nonce: Buffer): Buffer {
    return certificate('a phone', key, { name: INTERMEDIATE, key: this.#intermediate.privateKey }, nonce);
  }
}

/** An app on a phone with a key in its secure hardware. */
export class TestPhone {
  readonly #key = ecKey();
  readonly keyId: string;
  uses = 0;

  constructor(
    readonly apple: TestApple,
    readonly app: string,
  ) {
    this.keyId = this.#credentialId.toString('base64');
  }

  get #credentialId(): Buffer {
    // The uncompressed point at the end of the key.
    return sha256(this.#key.publicKey.export({ type: 'spki', format: 'der' }).subarray(-65));
  }

  /** As `DCAppAttestService.attestKey`. */
  attest(nonce: string, { development = false } = {}) {
    const environment = development ? Buffer.from('appattestdevelop') : Buffer.from('appattest'.padEnd(16, '\0'));
    const id = this.#credentialId;
    const authData = Buffer.concat([this.#authenticatorData(0, 0x40), environment, Buffer.from([0, id.length]), id]);
    const leaf = this.apple.certify(this.#key.publicKey, sha256(authData, sha256(nonce)));
    const attStmt = { x5c: [leaf, this.apple.intermediateCertificate], receipt: Buffer.from('a receipt') };
    const attestation = cbor({ fmt: 'apple-appattest', attStmt, authData }).toString('base64');
    return { kind: 'app_attest', nonce, key_id: this.keyId, attestation };
  }

  /** As `DCAppAttestService.generateAssertion`. */
  assert(nonce: string, uses = ++this.uses) {
    const authenticatorData = this.#authenticatorData(uses, 0x40);
    const signature = sign('sha256', sha256(authenticatorData, sha256(nonce)), this.#key.privateKey);
    const assertion = cbor({ signature, authenticatorData }).toString('base64');
    return { kind: 'app_attest', nonce, key_id: this.keyId, assertion };
  }

  #authenticatorData(uses: number, flags: number): Buffer {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(uses);
    return Buffer.concat([sha256(this.app), Buffer.from([flags]), count]);
  }
}
