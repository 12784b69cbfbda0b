// The reference of P1: bare `node:http` doing the work of a checkout, and nothing that a server would add. It reads the body,
// parses it, looks at each field, checks the token's HMAC, makes one EVALSHA of the product's own script, signs a ticket and
// answers with the same JSON. No routes, no further headers, no log line, no metrics, no limits, no time-outs, no memory of
// what it promised.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { Redis } from 'ioredis';
import { reserveCall } from './reserve-call.mjs';

const root = String(process.env.BENCH_ROOT);
const [attestationKey, ticketKey] = ['ATTESTATION_KEYS', 'TICKET_KEYS'].map((name) =>
  Buffer.from(String(process.env[name]).split(':')[1] ?? '', 'base64'),
);
const redis = new Redis(String(process.env.REDIS_URL), { enableAutoPipelining: true, replyMapping: 'legacy' });
const call = await reserveCall(redis, root);
const ID = /^[A-Za-z0-9._:@-]{1,128}$/;
const KEY = /^[A-Za-z0-9._~:-]{8,255}$/;

const server = createServer((req, res) => {
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => answer(req, res, String(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))));
});

async function answer(req, res, text) {
  const body = JSON.parse(text);
  const { product_id: product, user_id: user, qty, device_fp: device, attestation, expires_at: expiresAt } = body;
  const key = req.headers['idempotency-key'];
  const valid =
    ID.test(product) &&
    ID.test(user) &&
    ID.test(device) &&
    KEY.test(key) &&
    Number.isInteger(qty) &&
    qty >= 1 &&
    typeof attestation === 'string' &&
    Number.isInteger(expiresAt);
  if (!valid) return end(res, 400, '{}');
  const given = Buffer.from(attestation.slice(3));
  const expected = Buffer.from(
    createHmac('sha256', attestationKey).update(`${device}:${expiresAt}`).digest('base64url'),
  );
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return end(res, 401, '{}');
  const reply = await redis.evalsha(...call({ product, user, qty, device, expiresAt, key }));
  if (reply[0] === 'reserved') {
    const [, reservation, order, due] = reply;
    const no = Number.parseInt(reservation.slice(28), 16);
    const data = {
      status: 'completed',
      order_id: order,
      reservation_id: reservation,
      pay_before: due === '0' ? null : new Date(Number(due)).toISOString(),
      ticket: sign(no, user),
      durability: 'journaled',
    };
    return end(res, 200, JSON.stringify({ data }));
  }
  return end(
    res,
    202,
    JSON.stringify({ data: { status: reply[0], position: Number(reply[2]), ticket: sign(1, user) } }),
  );
}

function sign(no, user) {
  const payload = `t1.${no.toString(36)}.${Buffer.from(user).toString('base64url')}`;
  const mac = createHmac('sha256', ticketKey).update(payload).digest().subarray(0, 16).toString('base64url');
  return `${payload}.${mac}`;
}

function end(res, status, json) {
  const body = Buffer.from(json);
  res.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(body.length)]);
  res.end(body);
}

server.listen(0, '127.0.0.1', () => process.stdout.write(`listening http://127.0.0.1:${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
