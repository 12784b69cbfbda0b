import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from '@jest/globals';
import { findNginx, localConfiguration } from '../../scripts/engines/nginx.mjs';
import { atEnd } from './cleanup.js';
import { freePort } from './free-port.js';
import { startProgram } from './programs.js';
import { until } from './until.js';

const found = await findNginx();
if ('missing' in found) process.stderr.write(`\nSKIPPED: the tests behind nginx. ${found.missing}\n`);

/** `it`, or `it.skip` where nginx and its firewall could not be got. */
export const itBehindNginx = 'missing' in found ? it.skip : it;

export type NginxOptions = {
  /** URLs of the APIs. */
  read: string;
  write?: string;
  firewall?: boolean;
  /** Changes its configuration. */
  change?: (text: string) => string;
};

/** Starts nginx with its configuration, without TLS and with these APIs. @returns its URL */
export async function startNginx({ read, write = read, firewall = false, change = (text) => text }: NginxOptions) {
  if ('missing' in found) throw new Error(found.missing);
  const folder = await mkdtemp(join(tmpdir(), 'doorbuster-nginx-'));
  atEnd('the folder of nginx', () => rm(folder, { recursive: true, force: true }));
  const port = await freePort();
  const hosts = { read: new URL(read).host, write: new URL(write).host };
  const text = localConfiguration({ folder, port, ...hosts, ...(firewall ? { firewall: found.root } : {}) });
  const file = join(folder, 'nginx.conf');
  writeFileSync(file, change(text));
  const nginx = startProgram(found.path, ['-p', folder, '-c', file, '-g', 'daemon off; master_process off;'], folder);
  const url = `http://127.0.0.1:${port}`;
  const isUp = () =>
    fetch(url).then(
      () => true,
      () => nginx.child.exitCode !== null,
    );
  await until('nginx responds', isUp);
  if (nginx.child.exitCode !== null) throw new Error(`nginx has ended: ${nginx.output()}`);
  return { url, errors: join(folder, 'error.log') };
}

/** Puts nginx with its firewall before an API. Operators, origins and addresses of the tests pass, without a cache. */
export async function startGateway(api: string): Promise<string> {
  const forOperators = 'modsecurity off; limit_req_dry_run on; proxy_pass http://write;';
  const change = (text: string) =>
    text
      .replace(/(location ~ \^\/\(admin.*{) return 404; }/, `$1 ${forOperators} }`)
      .replaceAll('$proxy_add_x_forwarded_for', '$http_x_forwarded_for')
      .replace(/(map \$http_origin \$origin {\n *default) '';/, '$1 $http_origin;')
      // The port is part of an origin.
      .replaceAll('Host $host;', 'Host $http_host;')
      .replace('proxy_cache doorbuster;', '')
      .replace('client_max_body_size 64k', 'client_max_body_size 64m');
  const { url } = await startNginx({ read: api, firewall: true, change });
  return url;
}
