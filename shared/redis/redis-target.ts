import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

export type HostAndPort = { host: string; port: number };

/** TLS with the system's certificate authorities, or with the ones in `ca` (PEM). */
export type Tls = { ca: string | null };

type Login = { username: string | null; password: string | null };

/** Location of Redis: one address, the Sentinels that return the address of the primary, or nodes of a cluster. */
export type RedisTarget =
  | ({ kind: 'server'; server: HostAndPort; db: number; tls: Tls | null } & Login)
  | ({
      kind: 'sentinel';
      sentinels: readonly HostAndPort[];
      /** The name under which the Sentinels watch the primary. */
      name: string;
      db: number;
      tls: Tls | null;
      sentinelLogin: Login;
      sentinelTls: Tls | null;
    } & Login)
  | ({
      kind: 'cluster';
      /** Some nodes of the cluster, which name the others. */
      nodes: readonly HostAndPort[];
      /** In front of every key, because a cluster has no numbered databases; "" = none. */
      namespace: string;
      tls: Tls | null;
    } & Login);

export type ParsedTarget = { target: RedisTarget } | { problem: string };

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26379;

/** Valid forms of REDIS_URL, for messages. */
export const REDIS_URL_FORMS =
  'redis://, rediss://, redis+sentinel://h1,h2,h3/name, rediss+sentinel://h1,h2,h3/name, redis+cluster://h1,h2 or rediss+cluster://h1,h2';

class Malformed extends Error {}

const URL_PARTS = /^([a-z+]+):\/\/(?:(.*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/is;

/**
 * Parses REDIS_URL. The file named by `ca` is read here, so that a wrong path prevents the start.
 * @param readFile returns the contents of a file; replaced by tests
 */
export function parseRedisUrl(
  url: string,
  readFile: (path: string) => string = (path) => readFileSync(path, 'utf8'),
): ParsedTarget {
  try {
    return { target: targetOf(url, readFile) };
  } catch (error) {
    if (error instanceof Malformed) return { problem: error.message };
    throw error;
  }
}

/**
 * Returns the URL with its secrets replaced by ***, for messages; null = too malformed to recognise the secrets.
 */
export function redisUrlWithoutSecrets(url: string): string | null {
  const [, scheme, login, hosts, path = '', query] = URL_PARTS.exec(url) ?? [];
  if (
    scheme === undefined ||
    hosts === undefined ||
    !/^(\[[\da-f:.]+\]|[\w.-]+)(:\d*)?(,(\[[\da-f:.]+\]|[\w.-]+)(:\d*)?)*$/i.test(hosts)
  )
    return null;
  const shownLogin = login === undefined ? '' : '***@';
  const shownQuery = query === undefined ? '' : `?${query.replace(/(sentinel_password=)[^&]*/g, '$1***')}`;
  return `${scheme}://${shownLogin}${hosts}${path}${shownQuery}`;
}

/** The parts of a REDIS_URL; `withTls` = its scheme is one of rediss. */
type UrlParts = {
  withTls: boolean;
  login: string | undefined;
  hosts: string;
  path: string;
  query: string;
  readFile: (path: string) => string;
};

function targetOf(url: string, readFile: (path: string) => string): RedisTarget {
  const [, scheme = '', login, hosts = '', path = '', query = ''] = URL_PARTS.exec(url) ?? [];
  const [, tls, kind] = /^redis(s)?(|\+sentinel|\+cluster)$/i.exec(scheme) ?? [];
  const parts: UrlParts = { withTls: tls !== undefined, login, hosts, path, query, readFile };
  switch (kind?.toLowerCase()) {
    case '':
      return serverTarget(parts);
    case '+sentinel':
      return sentinelTarget(parts);
    case '+cluster':
      return clusterTarget(parts);
    default:
      throw new Malformed(`must be a URL starting with ${REDIS_URL_FORMS}`);
  }
}

function serverTarget({ withTls, login, hosts, path, query, readFile }: UrlParts): RedisTarget {
  const addresses = addressesOf(hosts, REDIS_PORT);
  const [server] = addresses;
  if (!server || addresses.length > 1)
    throw new Malformed('must name exactly one host; for several Sentinels use redis+sentinel://h1,h2,h3/name');
  const parameters = parametersOf(query, ['ca']);
  return {
    kind: 'server',
    server,
    ...loginOf(login),
    db: dbOf(path.slice(1)),
    tls: tlsOf(withTls, parameters, 'rediss://', readFile),
  };
}

function sentinelTarget({ withTls, login, hosts, path, query, readFile }: UrlParts): RedisTarget {
  const [name = '', db = '', ...rest] = path.slice(1).split('/');
  if (name === '' || rest.length > 0)
    throw new Malformed('must end with the name of the primary, as in redis+sentinel://h1,h2,h3/name or …/name/0');
  const parameters = parametersOf(query, ['ca', 'tls', 'sentinel_user', 'sentinel_password']);
  const tls = parameters.get('tls') ?? '0';
  if (tls !== '0' && tls !== '1') throw new Malformed('`tls` must be 0 or 1');
  return {
    kind: 'sentinel',
    sentinels: addressesOf(hosts, SENTINEL_PORT),
    name: decoded(name),
    ...loginOf(login),
    db: dbOf(db),
    tls: tlsOf(withTls || tls === '1', parameters, '`tls=1` or rediss+sentinel://', readFile),
    sentinelLogin: {
      username: parameters.get('sentinel_user') || null,
      password: parameters.get('sentinel_password') || null,
    },
    sentinelTls: withTls ? tlsOf(true, parameters, '', readFile) : null,
  };
}

function clusterTarget({ withTls, login, hosts, path, query, readFile }: UrlParts): RedisTarget {
  if (!/^\/?0?$/.test(path)) throw new Malformed('must have no path: a cluster has only database 0');
  const parameters = parametersOf(query, ['ca', 'namespace']);
  const namespace = parameters.get('namespace') ?? '';
  if (!/^[\w.-]{0,32}$/.test(namespace))
    throw new Malformed('`namespace` must have at most 32 letters, digits, dots, dashes and underscores');
  return {
    kind: 'cluster',
    nodes: addressesOf(hosts, REDIS_PORT),
    namespace,
    ...loginOf(login),
    tls: tlsOf(withTls, parameters, 'rediss+cluster://', readFile),
  };
}

function addressesOf(hosts: string, usualPort: number): HostAndPort[] {
  return hosts.split(',').map((address) => {
    const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(address.trim()) ?? [];
    const host = bracketed ?? plain;
    const number = port === undefined ? usualPort : Number(port);
    // The message omits the text, because without an @ it may be a password.
    if (host === undefined || number < 1 || number > 65_535)
      throw new Malformed(
        'each host must be a name or an address, with a port from 1 to 65535 if any; IPv6 in brackets',
      );
    return { host, port: number };
  });
}

function loginOf(login: string | undefined): Login {
  if (login === undefined) return { username: null, password: null };
  const colon = login.indexOf(':');
  const username = decoded(colon < 0 ? login : login.slice(0, colon));
  const password = colon < 0 ? '' : decoded(login.slice(colon + 1));
  if (password === '') throw new Malformed('must have a password after the user, as in redis://user:password@host');
  return { username: username || null, password };
}

function dbOf(text: string): number {
  if (text === '') return 0;
  if (!/^\d{1,5}$/.test(text))
    throw new Malformed('the number of the database must be a whole number, as in redis://host/0');
  return Number(text);
}

function parametersOf(query: string, names: readonly string[]): Map<string, string> {
  // A + means a plus, as in the part before the @.
  const parameters = new Map([...new URLSearchParams(query.replaceAll('+', '%2B'))]);
  for (const name of parameters.keys()) {
    if (!names.includes(name)) throw new Malformed(`has the unknown parameter \`${name}\`; known: ${names.join(', ')}`);
  }
  return parameters;
}

function tlsOf(
  withTls: boolean,
  parameters: Map<string, string>,
  how: string,
  readFile: (path: string) => string,
): Tls | null {
  const path = parameters.get('ca');
  if (!withTls) {
    if (path !== undefined) throw new Malformed(`\`ca\` requires TLS; use ${how}`);
    return null;
  }
  if (path === undefined) return { ca: null };
  try {
    const ca = readFile(path);
    new X509Certificate(ca);
    return { ca };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why =
      code === 'ENOENT' ? 'does not exist' : code === 'EACCES' ? 'may not be read' : 'is not a certificate in PEM form';
    throw new Malformed(`the file of \`ca\`, ${path}, ${why}`);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Malformed('user, password and name must be percent-encoded; a literal % is %25');
  }
}
