import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';
import { until } from './until.js';

/** Why this machine cannot have hosts of its own; null = it can. */
export function whyNoHosts(): string | null {
  if (process.platform !== 'linux') return 'network namespaces are a part of Linux';
  if (process.getuid?.() !== 0) return 'only root makes network namespaces';
  try {
    ip('netns', 'add', `${PREFIX}t`);
    ip('netns', 'delete', `${PREFIX}t`);
    return null;
  } catch (error) {
    return `no network namespace can be made: ${error instanceof Error ? error.message.split('\n')[0] : error}`;
  }
}

/** Names of interfaces have at most 15 characters. */
const PREFIX = `db${process.pid}`;

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** Runs inside a host: forwards a Unix socket to a port of its loopback or address. */
const RELAY = `const [path, port, host] = process.argv.slice(1);
const net = require('node:net');
net.createServer((from) => {
  const to = net.connect(Number(port), host);
  for (const socket of [from, to]) socket.on('error', () => { from.destroy(); to.destroy(); });
  from.pipe(to).pipe(from);
}).listen(path);`;

/** A host of its own on this machine: a network namespace, which a switch connects with the others. */
export type Host = {
  address: string;
  /** In front of a command, so that it runs there. */
  within: readonly string[];
  /** Cuts the host off: packets to it and from it vanish, and no connection notices that. */
  cut(): void;
  heal(): void;
};

/**
 * Some hosts and a switch; removed with the test file. The test itself is at the switch, and stays there when a host is
 * cut off. It reaches a port inside a host through `doorTo`.
 */
export class HostNetwork {
  readonly hosts: Host[] = [];
  /** The address of the test at the switch. */
  readonly address: string;
  readonly #subnet = `10.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}`;
  readonly #bridge = `${PREFIX}b`;

  constructor(count: number) {
    this.address = `${this.#subnet}.254`;
    ip('link', 'add', this.#bridge, 'type', 'bridge');
    atEnd('the switch', () => ip('link', 'delete', this.#bridge));
    ip('address', 'add', `${this.address}/24`, 'dev', this.#bridge);
    ip('link', 'set', this.#bridge, 'up');
    for (let n = 1; n <= count; n += 1) this.hosts.push(this.#addHost(n));
  }

  #addHost(n: number): Host {
    const [name, cable, address] = [`${PREFIX}h${n}`, `${PREFIX}v${n}`, `${this.#subnet}.${n}`];
    const within = ['ip', 'netns', 'exec', name];
    ip('netns', 'add', name);
    atEnd(`host ${n}`, () => ip('netns', 'delete', name));
    ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    const inside = (...args: string[]) => ip('-n', name, ...args);
    inside('address', 'add', `${address}/24`, 'dev', 'eth0');
    inside('link', 'set', 'eth0', 'up');
    inside('link', 'set', 'lo', 'up');
    const heal = () => ip('link', 'set', cable, 'master', this.#bridge, 'up');
    heal();
    return { address, within, cut: () => ip('link', 'set', cable, 'nomaster'), heal };
  }

  /** Listens at the switch and forwards to a port of the loopback. @returns the port */
  async shelve(port: number): Promise<number> {
    return listen(this.address, () => connect(port, '127.0.0.1'));
  }
}

/**
 * A port of the loopback that leads to a port inside a host, also while the host is cut off: through a socket in the
 * file system.
 */
export async function doorTo({ within, address }: Host, port: number, folder: string): Promise<number> {
  const path = join(folder, `${address}-${port}.sock`);
  const [program = '', ...args] = [...within, process.execPath, '-e', RELAY, path, String(port), address];
  const child = spawn(program, args, { stdio: 'ignore' });
  const exited = once(child, 'exit');
  atEnd('a door to a host', async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await until('the door is there', () => existsSync(path));
  return listen('127.0.0.1', () => connect(path));
}

/** @returns the port */
async function listen(host: string, target: () => Socket): Promise<number> {
  const open = new Set<Socket>();
  const server = createServer((from) => {
    const pair = [from, target()] as const;
    for (const socket of pair) {
      open.add(socket);
      socket.on('error', () => pair.forEach((one) => void one.destroy()));
      socket.on('close', () => open.delete(socket));
    }
    pair[0].pipe(pair[1]).pipe(pair[0]);
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  atEnd('a forwarded port', () => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}
