/**
 * 32 random bytes have about 30 different values, and 16 random characters about 14. Fewer than these minimums means
 * that a key is not random.
 */
const MIN_DIFFERENT_BYTES = 12;
const MIN_DIFFERENT_CHARACTERS = 6;
/** 16 random hexadecimal digits have about 14.6 different pairs of neighbours; `passwordpassword1` has 9. */
const MIN_DIFFERENT_PAIRS = 12;

const SIGNING = ['ATTESTATION_KEYS', 'TICKET_KEYS', 'PAY_LINK_KEYS', 'SHOPPER_SIGNING_KEYS'] as const;
const SECRETS = ['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'REGION_KEYS'] as const;

type Key = { variable: string; id: string; bytes: Buffer; differentAtLeast: number };

/**
 * Finds well-formed keys that are too weak for production: keys that are not random, such as zeros, and a key that is
 * used twice, because its holder could then act in both roles.
 * @param given the environment before validation
 * @returns the problems; they contain no secrets
 */
export function weakKeyProblems(given: Readonly<Record<string, string | undefined>>): string[] {
  const keys = keysOf(given);
  const problems: string[] = [];
  const seen = new Map<string, Key>();
  for (const key of keys) {
    if (new Set(key.bytes).size < key.differentAtLeast || pairsIn(key.bytes) < MIN_DIFFERENT_PAIRS)
      problems.push(`${key.variable}: ${key.id} is not random; make it with \`openssl rand -base64 32\``);
    const text = key.bytes.toString('hex');
    const other = seen.get(text);
    if (other) problems.push(`${key.variable}: ${key.id} is the same as ${other.id} of ${other.variable}`);
    else seen.set(text, key);
  }
  return problems;
}

function pairsIn(bytes: Buffer): number {
  return new Set(Array.from(bytes.subarray(1), (byte, i) => Number(bytes[i]) * 256 + byte)).size;
}

function keysOf(given: Readonly<Record<string, string | undefined>>): Key[] {
  const entries = (variable: string) =>
    (given[variable] ?? '')
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry.includes(':'))
      .map((entry) => ({ id: entry.slice(0, entry.indexOf(':')), text: entry.slice(entry.indexOf(':') + 1) }));
  const signing = SIGNING.flatMap((variable) =>
    entries(variable).map(({ id, text }) => ({
      variable,
      id: `key ${id}`,
      bytes: Buffer.from(text, 'base64'),
      differentAtLeast: MIN_DIFFERENT_BYTES,
    })),
  );
  const secrets = SECRETS.flatMap((variable) =>
    entries(variable).map(({ id, text }) => ({
      variable,
      id: `secret of ${id}`,
      bytes: Buffer.from(text),
      differentAtLeast: MIN_DIFFERENT_CHARACTERS,
    })),
  );
  const jwt = given.SHOPPER_JWT_SECRET;
  const shared = jwt
    ? [
        {
          variable: 'SHOPPER_JWT_SECRET',
          id: 'it',
          bytes: Buffer.from(jwt),
          differentAtLeast: MIN_DIFFERENT_CHARACTERS,
        },
      ]
    : [];
  // Keys that are too short are reported by another rule.
  return [...signing, ...secrets, ...shared].filter(({ bytes }) => bytes.length >= 16);
}
