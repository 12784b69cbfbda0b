// The reference of api-cpu: the smallest server that does the whole work of a checkout, a bare `node:http` with one
// EVALSHA a request.
//
// It reads the body, parses it, checks each field, checks the token's HMAC and age, lets one script decide (the same
// key again, the user's limit, the stock, an entry in a journal), signs a ticket and returns the JSON that the product
// returns. It leaves out everything else: routes, further headers, a log line, metrics, quotas, bans, time limits, and
// outcomes other than a unit, a repetition, a limit and no stock. Nothing in it is slower than it must be: keys are key
// objects, calls to Redis share pipelines, head and body go in one write. Its script is its own, with four keys and
// four arguments, so it is the same reference for every revision.
import { createHmac, createSecretKey, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { Redis } from 'ioredis';

const DECIDE = `
local before = redis.call('GET', KEYS[3])
if before then return { 'replayed', before } end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return { 'limit_reached' } end
if redis.call('DECR', KEYS[1]) < 0 then
  redis.call('INCR', KEYS[1])
  return { 'sold_out' }
end
redis.call('XADD', KEYS[4], 'MAXLEN', '~', 10000, '*', 'reservation', ARGV[2], 'user', ARGV[1], 'device', ARGV[3], 'due', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('SET', KEYS[3], ARGV[2], 'PX', 86400000)
return { 'reserved', ARGV[2] }`;
const HOLD_MS = 900_000;
const keyFrom = (/** @type {string | undefined} */ keys) =>
  createSecretKey(Buffer.from(String(keys).split(':')[1] ?? '', 'base64'));
const attestationKey = keyFrom(process.env.ATTESTATION_KEYS);
const ticketKey = keyFrom(process.env.TICKET_KEYS);
const redis = new Redis(String(process.env.REDIS_URL), { enableAutoPipelining: true, replyMapping: 'legacy' });
const sha = String(await redis.script('LOAD', DECIDE));
await redis.set('reference:stock', 10_000_000);
const ID = /^[A-Za-z0-9._:@-]{1,128}$/;
const KEY = /^[A-Za-z0-9._~:-]{8,255}$/;
/** @type {Record<string, number>} */
const STATUS = { limit_reached: 409, sold_out: 410 };

const server = createServer((req, res) => {
  /** @type {Buffer[]} */
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => answer(req, res, String(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))));
});

/**
 * @param {import('node:http').IncomingMessage} req
 * @param {import('node:http').ServerResponse} res
 * @param {string} text
 */
async function answer(req, res, text) {
  const body = JSON.parse(text);
  const { product_id: product, user_id: user, qty, device_fp: device, attestation, expires_at: expiresAt } = body;
  const key = String(req.headers['idempotency-key']);
  const valid =
    ID.test(product) &&
    ID.test(user) &&
    ID.test(device) &&
    KEY.test(key) &&
    Number.isInteger(qty) &&
    qty >= 1 &&
    typeof attestation === 'string' &&
    Number.isInteger(expiresAt);
  if (!valid) return end(res, 400, '{"code":"invalid_request"}');
  const given = Buffer.from(attestation.slice(3));
  const expected = Buffer.from(
    createHmac('sha256', attestationKey).update(`${device}:${expiresAt}`).digest('base64url'),
  );
  const now = Date.now();
  const genuine = given.length === expected.length && timingSafeEqual(given, expected);
  if (!genuine || expiresAt * 1000 + 30_000 < now) return end(res, 401, '{"code":"attestation_invalid"}');
  const id = randomUUID();
  const due = now + HOLD_MS;
  const keys = ['reference:stock', 'reference:people', `reference:key:${user}:${key}`, 'reference:journal'];
  const reply = await redis.evalsha(sha, keys.length, ...keys, user, id, device, due);
  const [kind = '', reservation = ''] = /** @type {string[]} */ (reply);
  if (kind !== 'reserved' && kind !== 'replayed') return end(res, STATUS[kind] ?? 500, `{"code":"${kind}"}`);
  const data = {
    status: 'completed',
    order_id: `o-${reservation}`,
    reservation_id: reservation,
    pay_before: new Date(due).toISOString(),
    ticket: sign(reservation, user),
    durability: 'journaled',
  };
  return end(res, 200, JSON.stringify({ data }));
}

/** @param {string} reservation @param {string} user */
function sign(reservation, user) {
  const payload = `t1.${reservation}.${Buffer.from(user).toString('base64url')}`;
  const mac = createHmac('sha256', ticketKey).update(payload).digest().subarray(0, 16).toString('base64url');
  return `${payload}.${mac}`;
}

/** @param {import('node:http').ServerResponse} res @param {number} status @param {string} json */
function end(res, status, json) {
  res.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(json))]);
  res.end(json);
}

server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.stdout.write(`listening http://127.0.0.1:${port}\n`);
});
process.on('SIGTERM', () => process.exit(0));
