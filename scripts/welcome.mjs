// Prints the end of `npm start`: all addresses, and commands to paste into another terminal.
import { DEMO_CAMPAIGN, DEMO_COUPON } from './demo.mjs';
import { addressOf } from './settings.mjs';

/**
 * @typedef {object} WelcomeFacts
 * @property {import('./settings.mjs').Settings} settings
 * @property {import('./settings.mjs').Keys} keys
 * @property {boolean} keysAreOurs generated, so that it is ours to show them
 * @property {string} redisUrl
 * @property {string} postgresUrl
 * @property {string} logs
 */

/**
 * @param {WelcomeFacts} facts
 * @returns {string}
 */
export function welcome({ settings, keys, keysAreOurs, redisUrl, postgresUrl, logs }) {
  const address = addressOf(settings);
  const operatorsAddress = addressOf({ ...settings, port: Number(settings.opsPort ?? settings.port) });
  const secrets = keysAreOurs
    ? [`  admin key     ${secretOf(keys.ADMIN_API_KEYS)}`, `  service key   ${secretOf(keys.SERVICE_API_KEYS)}`]
    : ['  keys          those of the environment'];
  // An address from the environment may contain a password, which must not be printed.
  const engines = [
    ...(settings.redisUrl === undefined ? [`  Redis         ${redisUrl}`] : []),
    ...(settings.databaseUrl === undefined ? [`  Postgres      ${postgresUrl}`] : []),
  ];
  const paste = ['', 'Buy something. Paste this into another terminal:', '', session(address, keys, keysAreOurs)];
  const lines = [
    '',
    'Doorbuster is ready.',
    '',
    `  API           ${address}`,
    ...(settings.withDemo ? [`  shop          ${address}/sale/${DEMO_CAMPAIGN.product_id}`] : []),
    `  operators     ${address}/admin`,
    `  documentation ${address}/docs`,
    `  health        ${address}/readyz`,
    `  metrics       ${operatorsAddress}/metrics`,
    ...secrets,
    ...engines,
    `  logs          ${logs}`,
    `  data          ${settings.dataDir}`,
    ...(settings.withDemo ? paste : []),
    '',
    'Ctrl-C stops all of it; the data stay.',
  ];
  return lines.join('\n');
}

/**
 * Returns the secret of the first entry of `name:secret,…`.
 * @param {string} keys
 * @returns {string}
 */
export function secretOf(keys) {
  const [first = ''] = keys.split(',');
  return first.slice(first.indexOf(':') + 1).trim();
}

/** Prints a field of the response's `data`. If it has none, as a problem document, prints the response and fails. */
const FIELD = `field() { node -e 'const text = fs.readFileSync(0, "utf8").trim(); let value
try { value = JSON.parse(text).data[process.argv[1]] } catch {}
if (value === undefined) { console.error("There is no " + process.argv[1] + " in " + (text || "the response")); process.exit(1) }
console.log(value)' "$1"; }`;

/**
 * The commands work in sh, bash and zsh (hence they have no comments) and need only curl and node. They can be pasted
 * again: each time they are for another user. A response without the expected field is printed, and what needs the
 * field is left out.
 * @param {string} address
 * @param {import('./settings.mjs').Keys} keys
 * @param {boolean} keysAreOurs
 */
function session(address, keys, keysAreOurs) {
  const key = keysAreOurs
    ? `'${secretOf(keys.SERVICE_API_KEYS)}'`
    : '$(echo "$SERVICE_API_KEYS" | cut -d, -f1 | cut -d: -f2-)';
  return `api=${address} product=${DEMO_CAMPAIGN.product_id} user=shopper-$(date +%s)-$$
device=$(node -p 'crypto.randomUUID()') key=$(node -p 'crypto.randomUUID()')
service_key=${key}
${FIELD}

token=$(curl -s "$api/flash-sale/token?device_fp=$device") && attestation=$(echo "$token" | field attestation) &&
expires_at=$(echo "$token" | field expires_at) && echo "$token" &&

checkout=$(curl -s "$api/flash-sale/checkout" -H 'Content-Type: application/json' -d '{
  "product_id": "'"$product"'", "user_id": "'"$user"'", "qty": 1, "device_fp": "'"$device"'",
  "attestation": "'"$attestation"'", "expires_at": '"$expires_at"',
  "idempotency_key": "'"$key"'" }') && ticket=$(echo "$checkout" | field ticket) && echo "$checkout" &&

curl -s "$api/flash-sale/queue-status?product_id=$product&user_id=$user" -H "X-Ticket: $ticket" && echo &&

reservation=$(echo "$checkout" | field reservation_id) &&
curl -s "$api/flash-sale/confirm" -H "Authorization: Bearer $service_key" -H 'Content-Type: application/json' \\
  -d '{ "reservation_id": "'"$reservation"'", "payment_ref": "pay-'"$user"'" }' && echo

curl -s "$api/coupons/redeem" -H 'Content-Type: application/json' -H "Idempotency-Key: coupon-$key" -d '{
  "code": "${DEMO_COUPON.code}", "user_id": "'"$user"'", "order_id": "cart-of-'"$user"'", "cart": { "subtotal": 250000, "currency": "IDR" } }'; echo`;
}
