// Finds nginx with ModSecurity and the OWASP Core Rule Set for the tests of the proxy: the distribution's packages,
// unpacked below the repository. Makes a configuration for this machine from that of deploy/nginx.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { messageOf } from '../problem.mjs';
import { APT_LIMIT_MS, unpackPackage } from './apt.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HOME = join(ROOT, '.engines', 'nginx');
const PACKAGE = {
  name: 'nginx',
  program: 'usr/sbin/nginx',
  others: ['libnginx-mod-http-modsecurity', 'modsecurity-crs'],
};

/**
 * @returns {Promise<{ path: string, root: string } | { missing: string }>} a starter of nginx, and the folder that has
 *   the files of the packages by their usual paths; or why there is none, for the log of the tests
 */
export async function findNginx() {
  const found = { path: join(HOME, 'nginx'), root: join(HOME, 'root') };
  mkdirSync(dirname(HOME), { recursive: true });
  const release = await waitForLock(`${HOME}.lock`, { limitMs: APT_LIMIT_MS, say: () => {} });
  try {
    if (!existsSync(found.path)) await unpackPackage(HOME, PACKAGE);
    return found;
  } catch (error) {
    const names = [PACKAGE.name, ...PACKAGE.others].join(', ');
    return { missing: `the packages ${names} of Debian could not be got (${messageOf(error)})` };
  } finally {
    release();
  }
}

/**
 * @typedef {object} LocalNginx
 * @property {string} folder for its files
 * @property {number} port on the loopback, without TLS
 * @property {string} read host and port of the API that reads
 * @property {string} [write] of the one that writes; none = the same
 * @property {string} [firewall] folder with the files of the packages; none = no firewall
 * @property {boolean} [limitless] without the limits of a network
 */

/**
 * Returns deploy/nginx/nginx.conf for this machine. With a firewall it writes the rules into the folder.
 * @param {LocalNginx} options
 */
export function localConfiguration({ folder, port, read, write = read, firewall, limitless = false }) {
  const source = join(ROOT, 'deploy/nginx');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  );
  let text = readFileSync(join(source, 'nginx.conf'), 'utf8')
    .replace(
      'worker_processes auto;',
      `user root; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;`,
    )
    // The generators keep their connections.
    .replace('access_log off;', `access_log off; keepalive_requests 100000000; ${temporary.join(' ')}`)
    .replace('/var/cache/nginx/doorbuster', join(folder, 'cache'))
    .replaceAll('/etc/nginx/static', join(ROOT, 'deploy/static'))
    .replace('listen 443 ssl;', `listen 127.0.0.1:${port};`)
    .replace(/ *(?:http2|ssl_certificate\w*) .*;\n/g, '');
  for (const [name, host] of Object.entries({ read, write })) {
    const servers = new RegExp(`(upstream ${name} {\\n *least_conn;\\n)(?: *#.*\\n)*(?: *server .*\\n)+`);
    text = text.replace(servers, `$1    server ${host} max_fails=0;\n`);
  }
  if (limitless) text = text.replace(/^ *limit_(?:req|conn) .*\n/gm, '');
  if (firewall === undefined) return text;
  const rules = join(folder, 'waf.conf');
  const unpacked = readFileSync(join(source, 'waf.conf'), 'utf8')
    .replaceAll(/(?<= )\/(?=etc\/modsecurity|usr\/share|etc\/nginx\/unicode)/g, `${firewall}/`)
    .replaceAll(/^(Sec(?:Tmp|Data)Dir) .*/gm, `$1 ${folder}`);
  writeFileSync(rules, unpacked);
  return text
    .replace('# load_module /', `load_module ${firewall}/`)
    .replace(/# (modsecurity (?:on|off);)/g, '$1')
    .replace('# modsecurity_rules_file /etc/nginx/waf.conf;', `modsecurity_rules_file ${rules};`)
    .replaceAll('# error_page 403 @refused;', 'error_page 403 @refused;');
}
