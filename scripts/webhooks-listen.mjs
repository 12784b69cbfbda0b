// `npm run webhooks:listen`: receives the events of a running service on this machine. It creates a webhook endpoint,
// prints each event, verifies its signature, and removes the endpoint when it ends.
import { createServer, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { apiIn, dataDirOf, secretsIn } from './own-service.mjs';
import { Problem } from './problem.mjs';
import { onStopRequest } from './stop-requests.mjs';
import { createTerminal } from './terminal.mjs';
import { secretOf } from './welcome.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const CALL_LIMIT_MS = 10_000;
const FORWARD_LIMIT_MS = 4_000;
const MAX_BODY_BYTES = 1024 * 1024;

const USAGE = `usage: npm run webhooks:listen -- [options]

Receives the webhooks of a running service on this machine: creates an endpoint, prints each event, verifies its signature,
and removes the endpoint at the end (Ctrl-C). The service has to allow private addresses, as \`npm start\` does.

  --api URL          the service (that of \`npm start\` in DATA_DIR, else http://127.0.0.1:8102; or PORT)
  --types A,B        only these types of events, such as dev.doorbuster.redemption.redeemed.v1
  --campaigns A,B    only these campaigns, by id or product id
  --forward-to URL   passes each event on with its headers; the response of that URL is the response to the service
  --host H, --port N where it listens, and where the service reaches it (127.0.0.1, any free port)
  --json             prints each event on one line, and nothing else
  --test             sends a test event first

The admin key is that of ADMIN_API_KEYS, else that of \`npm start\` in DATA_DIR. To verify with your own code, use the printed secret.
`;

/** @typedef {{ id: string, url: string, secret: string }} Endpoint */

const terminal = createTerminal();
/** @param {string[]} args */
async function main(args) {
  const options = readOptions(args);
  if (options.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const say = (/** @type {string} */ line) => void (options.json ? process.stderr : process.stdout).write(`${line}\n`);
  const api = new Api(options.api, adminKey(options.api));
  /** @type {Endpoint | undefined} */
  let endpoint;
  const server = createServer((req, res) => {
    receive(req, res, options, () => endpoint?.secret).catch((error) => {
      say(`an event could not be handled: ${error instanceof Error ? error.message : error}`);
      if (!res.headersSent) res.writeHead(500);
      res.end();
    });
  });
  const ended = new Promise((resolve) => {
    onStopRequest({ stop: resolve, hurry: () => process.exit(130) });
  });
  try {
    endpoint = await api.create(await listen(server, options), options);
    say(`listening for events of ${options.api}; Ctrl-C ends it\n  endpoint ${endpoint.id} at ${endpoint.url}`);
    say(`  secret   ${endpoint.secret}\n`);
    if (options.test) await api.call('POST', `/admin/webhooks/${endpoint.id}/test`);
    await ended;
  } finally {
    if (endpoint) {
      await api.call('DELETE', `/admin/webhooks/${endpoint.id}`);
      say(`endpoint ${endpoint.id} was removed`);
    }
    server.closeAllConnections();
    server.close();
  }
  return 0;
}

/** @param {string[]} args */
function readOptions(args) {
  const fallback = process.env.PORT
    ? `http://127.0.0.1:${process.env.PORT}`
    : (apiIn(dataDirOf(ROOT, process.env)) ?? 'http://127.0.0.1:8102');
  const text = { type: /** @type {const} */ ('string') };
  const flag = { type: /** @type {const} */ ('boolean'), default: false };
  try {
    const { values } = parseArgs({
      args,
      options: {
        help: { ...flag, short: 'h' },
        json: flag,
        test: flag,
        api: { ...text, default: fallback },
        types: text,
        campaigns: text,
        'forward-to': text,
        host: { ...text, default: '127.0.0.1' },
        port: { ...text, default: '0' },
      },
    });
    const port = Number(values.port);
    if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Error('--port must be 0 to 65535');
    for (const url of [values.api, values['forward-to']])
      if (url !== undefined && !(URL.canParse(url) && /^https?:/.test(url))) throw new Error(`${url} is no URL`);
    const api = values.api.replace(/\/+$/, '');
    return {
      ...values,
      api,
      port,
      forwardTo: values['forward-to'],
      types: listOf(values.types),
      campaigns: listOf(values.campaigns),
    };
  } catch (error) {
    throw new Problem(error instanceof Error ? `${error.message}.` : String(error), {
      remedy: 'See: npm run webhooks:listen -- --help',
      exitCode: 2,
    });
  }
}

/** @param {string | undefined} text */
function listOf(text) {
  return text?.split(',').map((part) => part.trim()) ?? null;
}

/** @param {string} api */
function adminKey(api) {
  const dataDir = dataDirOf(ROOT, process.env);
  const key = secretOf(process.env.ADMIN_API_KEYS || secretsIn(dataDir).ADMIN_API_KEYS || '');
  if (key) return key;
  throw new Problem(`There is no admin key for ${api}: neither in the environment nor in ${dataDir}.`, {
    remedy: 'Start the service with `npm start`, or set ADMIN_API_KEYS=name:secret.',
    exitCode: 2,
  });
}

class Api {
  #base;
  #key;

  /** @param {string} base @param {string} key */
  constructor(base, key) {
    this.#base = base;
    this.#key = key;
  }

  /** @param {string} method @param {string} path @param {object} [body] */
  async call(method, path, body) {
    const response = await fetch(this.#base + path, {
      method,
      headers: { authorization: `Bearer ${this.#key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(CALL_LIMIT_MS),
    }).catch((error) => {
      throw new Problem(`No server responds at ${this.#base}.`, {
        details: String(error.cause ?? error),
        remedy: 'Start it in another terminal: npm start\nor name another one with --api URL.',
        exitCode: 2,
      });
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text).data;
    const isPrivate = text.includes('private address');
    throw new Problem(`${method} ${path} was refused with ${response.status}.`, {
      details: text.slice(0, 1_000),
      ...(isPrivate ? { remedy: 'Start the service with WEBHOOK_ALLOW_PRIVATE=1 or NODE_ENV=development.' } : {}),
      exitCode: 1,
    });
  }

  /**
   * @param {string} url
   * @param {{ types: string[] | null, campaigns: string[] | null }} wanted
   * @returns {Promise<Endpoint>}
   */
  async create(url, { types, campaigns }) {
    const { id, secrets } = await this.call('POST', '/admin/webhooks', { url, types, campaigns });
    return { id, url, secret: secrets[0] };
  }
}

/**
 * @param {import('node:http').Server} server
 * @param {{ host: string, port: number }} options
 * @returns {Promise<string>} the URL of the endpoint
 */
function listen(server, { host, port }) {
  return new Promise((resolve, reject) => {
    server.once('error', (error) =>
      reject(new Problem(`Cannot listen on ${host}, port ${port}: ${error.message}`, { exitCode: 2 })),
    );
    server.listen(port, host, () => {
      const address = /** @type {import('node:net').AddressInfo} */ (server.address());
      resolve(`http://${host.includes(':') ? `[${host}]` : host}:${address.port}/`);
    });
  });
}

/**
 * @param {import('node:http').IncomingMessage} req
 * @param {import('node:http').ServerResponse} res
 * @param {{ json: boolean, forwardTo: string | undefined }} options
 * @param {() => string | undefined} secretNow
 */
async function receive(req, res, { json, forwardTo }, secretNow) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of req) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return void res.writeHead(413).end();
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks).toString();
  const wrong = signatureFault(secretNow(), body, req.headers);
  if (wrong !== null) {
    process.stderr.write(`rejected: ${wrong}\n`);
    return void res.writeHead(401).end();
  }
  const event = JSON.parse(body);
  const status = forwardTo ? await forward(forwardTo, body, req.headers) : 204;
  const forwarded = forwardTo ? `, ${forwardTo} responded with ${status || 'nothing'}` : '';
  process.stdout.write(
    json
      ? `${JSON.stringify(event)}\n`
      : `${event.time} ${event.type} ${event.subject}  signature ok${forwarded}\n${JSON.stringify(event.data, null, 2)}\n\n`,
  );
  res.writeHead(status || 502).end();
}

/**
 * @param {string | undefined} secret
 * @param {string} body
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @returns {string | null} what is wrong with the signature; null = it is right
 */
function signatureFault(secret, body, headers) {
  // The first event may arrive before the response with the secret.
  if (secret === undefined) return 'the secret is not known yet; the service sends the event again';
  try {
    new Webhook(secret).verify(body, /** @type {Record<string, string>} */ (headers));
    return null;
  } catch (error) {
    return `signature: ${error instanceof Error ? error.message : error}`;
  }
}

/**
 * Passes an event on, with the headers that a receiver verifies.
 * @param {string} url
 * @param {string} body
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @returns {Promise<number>} the status of the response; 0 = there was none
 */
function forward(url, body, headers) {
  const passed = Object.entries(headers).filter(([name]) =>
    /^(webhook-|content-type$|traceparent$|user-agent$)/.test(name),
  );
  const send = url.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    const options = { method: 'POST', headers: Object.fromEntries(passed), timeout: FORWARD_LIMIT_MS };
    const sent = send(url, options, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('timeout', () => sent.destroy());
    sent.on('error', () => resolve(0));
    sent.end(body);
  });
}

// Last, because it uses the class above.
process.exitCode = await main(process.argv.slice(2)).catch((error) => {
  terminal.explain(error);
  return error instanceof Problem ? error.exitCode : 2;
});
