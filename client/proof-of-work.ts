/** The proof of work that the server may ask for (docs/challenges.md). */

type Parameters = {
  algorithm: string;
  nonce: string;
  salt: string;
  cost: number;
  keyPrefix: string;
};

/** Hashes between two yields to the event loop: some milliseconds. */
const SLICE = 8_192;

/**
 * @returns the fields that solve the challenge in a request; null when the challenge is of another kind, or the hash
 *   library does not load
 */
export async function solveWork(challenge: unknown): Promise<{ challenge_solution: string } | null> {
  const { parameters } = challenge as { parameters?: Parameters };
  if (parameters?.algorithm !== 'SHA-256') return null;
  const { nonce, salt, cost, keyPrefix } = parameters;
  // Loaded only when needed, which is rare. `crypto.subtle` is not used, because it is asynchronous and missing in
  // React Native.
  const hashes = await import('@noble/hashes/sha2.js').catch(() => null);
  if (hashes === null) return null;
  const { sha256 } = hashes;
  const start = (salt + nonce).match(/../g) ?? [];
  const bytes = Uint8Array.from([...start.map((hex) => Number.parseInt(hex, 16)), 0, 0, 0, 0]);
  const view = new DataView(bytes.buffer);
  for (let counter = 0, done = 0; ; counter += 1) {
    view.setUint32(start.length, counter);
    let key = sha256(bytes);
    for (let i = 1; i < cost; i += 1) key = sha256(key);
    const derivedKey = [...key].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (derivedKey.startsWith(keyPrefix))
      return { challenge_solution: btoa(JSON.stringify({ challenge, solution: { counter, derivedKey } })) };
    done += cost;
    if (done < SLICE) continue;
    done = 0;
    await new Promise((resolve) => setTimeout(resolve));
  }
}
