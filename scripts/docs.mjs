// `npm run docs`: writes the documents that are generated from the code. With --check it writes nothing, and the exit
// code shows whether they are up to date. Needs a build.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DOCUMENTS_WITH_FIGURES, withFigures } from './figures.mjs';
import { helmSchema } from './helm-schema.mjs';
import { withTerms } from './lua-terms.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const built = (/** @type {string} */ path) => import(join(ROOT, 'dist/shared', path));
/** @type {typeof import('../shared/config/environment.js')} */
const { ENVIRONMENT, REQUIRED_SECRETS, SECRET_NAMES } = await built('config/environment.js');
/** @type {typeof import('../shared/contracts/events.js')} */
const { DOCUMENTED_EVENTS } = await built('contracts/events.js');
/** @type {typeof import('../shared/domain/terms.js')} */
const { TEXT_FIELDS } = await built('domain/terms.js');
/** @type {typeof import('../shared/errors/catalogue.js')} */
const { ERRORS } = await built('errors/catalogue.js');
/** @type {typeof import('../shared/redis/keys.js')} */
const { KEPT, KEY_DOCS, keys } = await built('redis/keys.js');

const NOTE = '<!-- Made by `npm run docs`; do not edit. -->';
/** Read by `npm start` alone (scripts/settings.mjs). */
const START_ENVIRONMENT = [
  ['DATA_DIR', '.data', 'where `npm start` keeps its engines’ data and its generated secrets'],
];

const documents = {
  'docs/errors.md': errorsDocument(),
  'docs/events.md': eventsDocument(),
  'docs/redis-keys.md': keysDocument(),
  'docs/configuration.md': configurationDocument(),
  '.env.example': envExample(),
  'deploy/helm/values.schema.json': helmSchema(ENVIRONMENT, SECRET_NAMES),
  'client/codes.ts': codesModule(),
  'server/codes.ts': codesModule(),
  'lua/includes/campaign.lua': withTerms(read(join(ROOT, 'lua/includes/campaign.lua')), TEXT_FIELDS),
  ...documentsWithFigures(),
};

const check = process.argv.includes('--check');
let stale = 0;
for (const [path, text] of Object.entries(documents)) {
  const file = join(ROOT, path);
  if (read(file) === text) continue;
  stale += 1;
  if (check) process.stderr.write(`${path} is not up to date; run \`npm run docs\`\n`);
  else writeFileSync(file, text);
}
if (!check) process.stdout.write(`${stale} of ${Object.keys(documents).length} documents were written\n`);
process.exitCode = check && stale > 0 ? 1 : 0;

/** The codes of refusals for the packages, which do not share code with the service. */
function codesModule() {
  return `// Made by \`npm run docs\`; do not edit.
/** The codes of the problem documents of Doorbuster. */
export const CODES: ReadonlySet<string> = new Set([
${Object.keys(ERRORS)
  .map((code) => `  '${code}',\n`)
  .join('')}]);
`;
}

function errorsDocument() {
  const rows = Object.entries(ERRORS).map(
    ([code, { status, title, remedy }]) => `| \`${code}\` | ${status} | ${title} | ${remedy} |`,
  );
  return `# Errors

${NOTE}

Every refusal is \`application/problem+json\` (RFC 9457) with \`type\`, \`title\`, \`status\`, \`detail\`, \`instance\` and \`code\`;
validation errors add \`errors: [{"pointer", "detail"}]\`. The table is \`shared/errors/catalogue.ts\`.

| code | status | title | what to do |
| --- | --- | --- | --- |
${rows.join('\n')}
`;
}

function eventsDocument() {
  const rows = Object.entries(DOCUMENTED_EVENTS).map(([type, { meaning, data }]) => {
    const fields = Object.entries(data.shape).map(([name, schema]) => {
      const note = [schema.safeParse(null).success ? 'or null' : '', schema.description ?? '']
        .filter(Boolean)
        .join(', ');
      return `\`${name}\`${note ? ` (${note})` : ''}`;
    });
    return `| \`${type}\` | ${meaning} | ${fields.join(', ')} |`;
  });
  return `# Events

${NOTE}

CloudEvents 1.0 in JSON: \`specversion\`, \`id\`, \`source\` (\`EVENT_SOURCE\`), \`type\`, \`subject\` (the reservation, of campaign
events the product), \`time\`, \`datacontenttype\`, \`data\`, and \`traceparent\` when the request had one. Written by the transaction
that caused them; delivered in order, at least once: the same event always has the same \`id\`, so remember ids or reservations. The
table is \`shared/contracts/events.ts\`.

**Redis stream** \`${keys.events}\` (with [shards](shards.md), behind the tag of shard 0): fields \`id\`, \`type\`, \`subject\`, \`event\` (the CloudEvent). Read it with a consumer group that starts
at \`0\`; a Redis that lost its data gets its events again. See \`examples/\`.

**Webhooks** (\`POST /admin/webhooks\`): the CloudEvent as the body of a POST, signed by [Standard Webhooks](https://www.standardwebhooks.com)
(\`webhook-id\`, \`webhook-timestamp\`, \`webhook-signature\`, one signature a secret). Any 2xx within five seconds is an acceptance, 410
disables the endpoint, anything else is tried again after 1 s, 2 s, 4 s … an hour, for a day; then the endpoint is disabled.
Redirects are not followed. The next event is sent when the one before it was accepted or parked. The status decides: the body is not read, and
a connection whose body goes on is closed.

After a change of an endpoint (\`PATCH\`), its next delivery is tried at once. A response to a call that was under way then, to the old URL
for example, neither fails nor disables the endpoint, and its event is sent again.

An event that the endpoint rejects is parked with the later events of its reservation (or campaign), and the others go on. It is retried
with the same delays; after a day it waits until an operator changes the endpoint in any way. At most 1,000
events are parked for an endpoint. An event that three times gets no response, a redirect, 401, 403, 404, 405, 429, 502, 503 or 504 is
parked too; after the first and the second time all events wait. When events of three different reservations in a row failed, the endpoint
waits as a whole, until it accepts one of them. An endpoint that accepts nothing for a day is disabled.

An endpoint receives the \`types\` and the \`campaigns\` that it names. \`campaigns\` takes product ids and ids of campaigns; responses
have the ids. \`POST /admin/webhooks/:id/test\` sends a test event and returns
how the endpoint responded. \`GET /admin/webhooks/:id/attempts\` lists the last attempts. URLs with private addresses are
refused, except with \`NODE_ENV=development\` (\`npm start\`) or \`WEBHOOK_ALLOW_PRIVATE=1\`. \`npm run webhooks:listen\` receives the
events of a running service on this machine, prints them and verifies their signatures; \`--forward-to\` passes them on.

\`POST /admin/webhooks/:id/replay\` sends events of
the last seven days again, by \`event_id\` or \`from\` and \`to\`.

**Kafka** (\`KAFKA_BROKERS\`): each event as a record, its key the reservation, of campaign events the campaign. See
[kafka.md](kafka.md).

| type | meaning | data |
| --- | --- | --- |
${rows.join('\n')}
`;
}

function keysDocument() {
  const rows = Object.entries(KEY_DOCS).map(([name, meaning]) => {
    const known = /** @type {keyof typeof keys} */ (name);
    const key = keys[known];
    const shown = typeof key === 'function' ? filledIn(key) : key;
    return `| ${name} | \`${cell(shown)}\` | ${KEPT[known]} | ${cell(meaning)} |`;
  });
  return `# Keys in Redis

${NOTE}

The table is \`shared/redis/keys.ts\`. On a cluster, and with several shards, \`{tag}\` of the shard comes first ([shards](shards.md)). Packed records are defined in \`shared/redis/record-formats.ts\`.

When Redis loses its data, a \`fact\` comes back from Postgres or the journal, and a \`derived\` key follows from facts. An \`expendable\` key is not needed for any promise. Keys of a \`caller\` begin again.

| name | key | kept | what it holds |
| --- | --- | --- | --- |
${rows.join('\n')}
`;
}

/**
 * A text in a cell of a table, where a bar would end the cell.
 * @param {string} text
 */
function cell(text) {
  return text.replaceAll('|', '\\|');
}

/**
 * The key with the names of its parameters for their values.
 * @param {(...args: never[]) => string} key
 */
function filledIn(key) {
  const parameters = key.toString().split('=>')[0]?.match(/\w+/g) ?? [];
  return key(.../** @type {never[]} */ (parameters.map((parameter) => `<${parameter}>`)));
}

function configurationDocument() {
  const rows = settings().map(
    ({ name, fallback, meaning, requirement }) => `| \`${name}\` | ${fallback ?? requirement} | ${meaning} |`,
  );
  const start = START_ENVIRONMENT.map(([name, fallback, meaning]) => `| \`${name}\` | ${fallback} | ${meaning} |`);
  return `# Configuration

${NOTE}

Read once, by \`shared/config/config.ts\`; every mistake is reported at once and stops the start with exit code 1. Under
\`npm start\` the engines and all secrets are made for you and kept in \`DATA_DIR\`.

| name | default | meaning |
| --- | --- | --- |
${rows.join('\n')}

Read by \`npm start\` alone:

| name | default | meaning |
| --- | --- | --- |
${start.join('\n')}
`;
}

function envExample() {
  const lines = settings().map(
    ({ name, fallback, meaning }) => `# ${meaning}\n${fallback === undefined ? '#' : ''}${name}=${fallback ?? ''}\n`,
  );
  const start = START_ENVIRONMENT.map(([name, fallback, meaning]) => `# ${meaning}\n${name}=${fallback}\n`);
  return `# Made by \`npm run docs\` from shared/config/environment.ts. Copy to .env and load it with your process manager
# (\`node --env-file=.env\`); \`npm start\` needs none of it.

${lines.join('\n')}
# Read by \`npm start\` alone

${start.join('\n')}`;
}

function settings() {
  return Object.entries(ENVIRONMENT).map(([name, schema]) => ({
    name,
    fallback: 'defaultValue' in schema.def ? schema.def.defaultValue : undefined,
    meaning: schema.description ?? '',
    requirement: requirementOf(name),
  }));
}

/** @param {string} name of a setting without a default */
function requirementOf(name) {
  if (name === 'REDIS_URL' || name === 'DATABASE_URL') return 'required';
  return REQUIRED_SECRETS.some((secret) => secret === name)
    ? 'required in production and with API_PROCESSES above 1'
    : 'unset';
}

/** @returns {Record<string, string>} texts by path */
function documentsWithFigures() {
  const records = JSON.parse(read(join(ROOT, 'loadtest/bench/record.json')));
  return Object.fromEntries(
    Object.entries(DOCUMENTS_WITH_FIGURES).map(([path, figuresOf]) => [
      path,
      withFigures(read(join(ROOT, path)), figuresOf(records)),
    ]),
  );
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
