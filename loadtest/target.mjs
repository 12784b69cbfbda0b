// The server under load: whether it responds, the keys for it, and the engines that the ledger compares.
import { dataDirOf, enginesIn, secretsIn } from '../scripts/own-service.mjs';
import { Problem } from '../scripts/problem.mjs';
import { secretOf } from '../scripts/welcome.mjs';

const ASK_LIMIT_MS = 10_000;

/**
 * @typedef {{ url: string, adminKey: string, serviceKey: string, engines: { REDIS_URL: string,
 *   DATABASE_URL: string, SHARDS?: string } }} Target
 */

/**
 * @param {URL} url
 * @param {string} root the repository
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Target>}
 */
export async function findTarget(url, root, env) {
  await requireReady(url);
  const dataDir = dataDirOf(root, env);
  const secrets = secretsIn(dataDir);
  const keyFor = (/** @type {'ADMIN_API_KEYS' | 'SERVICE_API_KEYS'} */ name) => {
    const key = secretOf(env[name] || secrets[name] || '');
    if (key !== '') return key;
    throw new Problem(
      `There is no ${name} for ${url.origin}: neither in the environment nor in ${dataDir}/secrets.json.`,
      {
        remedy: `Name the data directory of its \`npm start\` (DATA_DIR=… npm run loadtest -- …), or set ${name}=name:secret.`,
        exitCode: 2,
      },
    );
  };
  const adminKey = keyFor('ADMIN_API_KEYS');
  const serviceKey = keyFor('SERVICE_API_KEYS');
  const own = enginesIn(dataDir);
  const REDIS_URL = env.REDIS_URL || own.REDIS_URL;
  const DATABASE_URL = env.DATABASE_URL || own.DATABASE_URL;
  if (!REDIS_URL || !DATABASE_URL) {
    throw new Problem(`The ledger needs the engines of ${url.origin}, and ${dataDir} knows of none that run.`, {
      remedy: 'Name the data directory of its `npm start` with DATA_DIR, or set REDIS_URL and DATABASE_URL.',
      exitCode: 2,
    });
  }
  return { url: url.origin, adminKey, serviceKey, engines: { REDIS_URL, DATABASE_URL } };
}

/** @param {URL} url */
async function requireReady(url) {
  const answer = await fetch(`${url.origin}/readyz`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) }).catch(() => null);
  if (answer === null) {
    throw new Problem(`No server responds at ${url.origin}.`, {
      remedy: 'Start the server first, in another terminal: npm start\nor name another one with --target URL.',
      exitCode: 2,
    });
  }
  const text = (await answer.text()).slice(0, 500);
  if (answer.ok && text.includes('"checks"')) return;
  throw new Problem(`The server at ${url.origin} is not ready: ${answer.status} ${text}`, { exitCode: 2 });
}

/**
 * Calls the API as the operator or the payment service.
 * @param {Target} target
 * @param {'admin' | 'service'} as
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body] JSON, or a text that is CSV
 * @returns {Promise<{ status: number, body: any }>}
 */
export async function call(target, as, method, path, body) {
  const csv = typeof body === 'string';
  const answer = await fetch(`${target.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${as === 'admin' ? target.adminKey : target.serviceKey}`,
      ...(body === undefined ? {} : { 'content-type': csv ? 'text/csv' : 'application/json' }),
    },
    ...(body === undefined ? {} : { body: csv ? body : JSON.stringify(body) }),
    signal: AbortSignal.timeout(ASK_LIMIT_MS),
  });
  const text = await answer.text();
  return { status: answer.status, body: text.startsWith('{') ? JSON.parse(text) : { text } };
}

/**
 * Returns the `data` of an operator's call, which must not fail.
 * @param {Target} target
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function operate(target, method, path, body) {
  return (await insist(target, method, path, body)).data;
}

/**
 * A page of an operator's list, with its cursor.
 * @param {Target} target
 * @param {string} path
 * @returns {Promise<any>}
 */
export function pageOf(target, path) {
  return insist(target, 'GET', path);
}

/** @param {Target} target @param {string} method @param {string} path @param {unknown} [body] */
async function insist(target, method, path, body) {
  const answer = await call(target, 'admin', method, path, body);
  if (answer.status < 300) return answer.body;
  const known = answer.status === 401 || answer.status === 403;
  throw new Problem(
    `${method} ${path} was answered with ${answer.status} ${JSON.stringify(answer.body).slice(0, 500)}`,
    {
      ...(known
        ? { remedy: 'The admin key is not that of this server: see DATA_DIR and ADMIN_API_KEYS in --help.' }
        : {}),
      exitCode: 2,
    },
  );
}
